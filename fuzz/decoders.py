"""The Python decoders, each as a function of any bytes: what they may raise is caught here, all else is a fault."""

from __future__ import annotations

import gzip
import os
import socket
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from struct import Struct
from typing import Any

from ttmem.events import EVENT_SIZE, DeviceDeclaration
from ttmem.probe import layout
from ttmem.sources.probe_region import BadRegion, ProbeRegion
from ttmem.sources.shared_memory.layout import LAYOUTS, UnknownLayout, Unsettled, decode
from ttmem.sources.socket_peer import Peer
from ttmem.text import printable
from ttmem.wire.frames import parse_answer, preamble
from ttmem.wire.historical import Head
from ttmem.wire.record_stream import Broken, Item, RecordStream, Reports

RECORDS = 64
CHANGE = Struct("<BBBQ")
U64 = Struct("<Q")
_WORD = (1 << 64) - 1
SEALED = {
    layout.Section.RING,
    layout.Section.LIVE,
    layout.Section.DEVICES,
    layout.Section.SETS,
    layout.Section.CORES,
    layout.Section.FAILURES,
}
GOLDEN = Path(__file__).parents[1] / "tests" / "data" / "probe_regions" / "version-1.gz"


class _Nobody:
    """A sink that takes everything a peer understood."""

    def hello(self, peer: Peer, document: dict[str, Any]) -> str | None:
        return None

    def declare(self, peer: Peer, declaration: DeviceDeclaration) -> None:
        assert DeviceDeclaration.from_json(declaration.to_json()) == declaration

    def string(self, peer: Peer, number: int, text: str) -> None:
        text.encode()

    def cores(self, peer: Peer, number: int, mask: int) -> None:
        assert 0 <= mask < 1 << 1024

    def events(self, peer: Peer, data: bytes, offset: int, length: int) -> None:
        assert length % EVENT_SIZE == 0
        assert offset + length <= len(data)

    def resync(self, peer: Peer, begin: bool) -> None: ...

    def lost(self, peer: Peer, dropped: int, overflow: int) -> None: ...

    def query(self, peer: Peer, document: dict[str, Any]) -> list[bytes]:
        return []

    def question(self, peer: Peer, head: Head, record_size: int) -> bytes | None:
        return None

    def problem(self, peer: Peer, text: str, records: int) -> None:
        text.encode()


def frames(data: bytes) -> None:
    """What a client sends after its preamble, through a peer; and the same bytes as a server's answer."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        peer = Peer(ours, os.getpid(), os.getuid(), _Nobody())
        theirs.setblocking(False)
        theirs.send(preamble() + data[:65536])
        peer.readable()
        theirs.close()
        while not peer.closed:
            peer.readable()
    try:
        parse_answer(data)
    except ValueError:
        pass


def historical(data: bytes) -> None:
    """Records, in one piece and in two: the events are the same."""
    cut = data[0] if data else 0
    whole, parts = RecordStream(1), RecordStream(1)
    once = [*whole.feed(data), *whole.end()]
    twice = [*parts.feed(data[:cut]), *parts.feed(data[cut:]), *parts.end()]
    for items in (once, twice):
        assert all(
            len(item.events) % EVENT_SIZE == 0 for item in items if isinstance(item, Reports)
        )
        assert not any(isinstance(item, Broken) for item in items[:-1])
    assert not whole.waiting
    assert _events(once) == _events(twice)


def _events(items: list[Item]) -> bytes:
    return b"".join(item.events for item in items if isinstance(item, Reports))


def shared_memory(data: bytes) -> None:
    """The chip's number, which layout, then the region: what is missing is zero."""
    number, which = int.from_bytes(data[:8], "little"), data[8] if len(data) > 8 else 0
    size = [*LAYOUTS][which % len(LAYOUTS)]
    try:
        region = decode(data[9:].ljust(size, b"\0"), number)
    except (UnknownLayout, Unsettled):
        return
    assert all(printable(slot[-1]).isprintable() for slot in region.slots)


def _mixed(total: int, word: int) -> int:
    total = (total ^ word) * 0x9E3779B97F4A7C15 & _WORD
    return total ^ total >> 29


def _checksum(record: bytes) -> int:
    """As `native/probe/layout.hpp` has it: an enemy can count, too."""
    words = [word for (word,) in U64.iter_unpack(record)][1:]
    one, other = 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
    for place, word in enumerate(words):
        if place % 2 and place < len(words):
            other = _mixed(other, word)
        else:
            one = _mixed(one, word)
    total = _mixed(one, other)
    return total + 2 if total < 2 else total


class _SmallRegion:
    """The golden region with a few records of each section, in a file that is changed and put right again."""

    def __init__(self, folder: str) -> None:
        golden = gzip.decompress(GOLDEN.read_bytes())
        data = bytearray(golden[: layout.HEADER_SIZE])
        self.starts = []
        for section in layout.Section:
            at = layout.SECTIONS_AT + section * layout.SECTION.size
            offset, count, stride = layout.SECTION.unpack_from(golden, at)
            kept = min(count, 4096 if section is layout.Section.TEXT else RECORDS)
            places: Sequence[int] = range(offset, offset + count * stride, stride)
            if section is not layout.Section.TEXT:  # those in use first
                places = sorted(places, key=lambda place: not any(golden[place : place + stride]))
            layout.SECTION.pack_into(data, at, len(data), kept, stride)
            self.starts.append((len(data), stride))
            data += b"".join(golden[place : place + stride] for place in places[:kept])
            data += bytes(-len(data) % 8)
        layout.HEADER.pack_into(
            data,
            0,
            *layout.HEADER.unpack_from(data)[:3],
            len(data),
            *layout.HEADER.unpack_from(data)[4:],
        )
        self.sound = bytes(data)
        self.path = os.path.join(folder, "ttmem_1_1")
        Path(self.path).write_bytes(self.sound)

    def write(self, changes: bytes) -> None:
        """Each change: section (others: the header), record, word, and what it becomes."""
        with open(self.path, "r+b") as file:
            for at in range(0, len(changes) - CHANGE.size + 1, CHANGE.size):
                section, record, word, value = CHANGE.unpack_from(changes, at)
                if section >= len(self.starts):
                    os.pwrite(file.fileno(), U64.pack(value), (record * 256 + word) % 511 * 8)
                    continue
                offset, stride = self.starts[section]
                offset += record % RECORDS * stride
                os.pwrite(file.fileno(), U64.pack(value), offset + word * 8 % max(8, stride))
                if section in SEALED:
                    whole = os.pread(file.fileno(), stride, offset)
                    os.pwrite(file.fileno(), U64.pack(_checksum(whole)), offset)

    def restore(self) -> None:
        """As it was."""
        with open(self.path, "r+b") as file:
            file.write(self.sound)


def _read_all(path: str) -> None:
    region = ProbeRegion(path)
    try:
        region.header()
        region.process_alive()
        region.counters()
        region.activity()
        region.features()
        region.losses()
        region.new_events()
        region.new_strings()
        region.new_cores()
        region.live()
        region.gone_with_device()
        region.devices()
        region.failures()
    finally:
        region.close()


_small: list[_SmallRegion] = []


def probe_region(data: bytes) -> None:
    """A region with some words changed, and the checksums made right."""
    if not _small:
        _folders.append(tempfile.TemporaryDirectory(prefix="ttmem-fuzz-", dir="/dev/shm"))
        _small.append(_SmallRegion(_folders[0].name))
    (small,) = _small
    small.write(data[: 16 * CHANGE.size])
    try:
        _read_all(small.path)
    except BadRegion:
        pass
    finally:
        small.restore()


_folders: list[tempfile.TemporaryDirectory[str]] = []

ALL: dict[str, Callable[[bytes], None]] = {
    "frames": frames,
    "historical": historical,
    "shared_memory": shared_memory,
    "probe_region": probe_region,
}
