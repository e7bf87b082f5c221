"""The decoders, each as a function of any bytes: what they may raise is caught here, all else is a fault."""

from __future__ import annotations

import gzip
import os
import socket
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from struct import Struct
from typing import Any

from fuzz.probe_regions import ChangedFile
from fuzz.recordings import InMemory, golden, sealed
from ttmem._native import Ledger, decode_records
from ttmem.errors import TtmemError
from ttmem.events import EVENT, EVENT_SIZE, Control, DeviceDeclaration
from ttmem.events.samples import in_use
from ttmem.probe import layout
from ttmem.probe.layout import Section
from ttmem.recording import Recording
from ttmem.snapshots import DETAILS
from ttmem.sources.counters.layout import LAYOUTS, UnknownLayout, Unsettled, decode
from ttmem.sources.counters.proc_scan import ProcScan
from ttmem.sources.counters.process_states import ProcessStates
from ttmem.sources.counters.remarks import cross_checks, table_remarks
from ttmem.sources.counters.slots import SlotReader
from ttmem.sources.probe.region import ProbeRegion
from ttmem.sources.probe.region_file import BadRegion
from ttmem.sources.socket.peer import Peer
from ttmem.wire.frames import parse_answer, preamble
from ttmem.wire.historical import Head, Item, Problem, RecordStream

# Of `fuzz.guided`, which removes it: a fuzzer that ends removes nothing.
FOLDER = os.environ.get("TTMEM_FUZZ_FOLDER", "/dev/shm")
GOLDEN = Path(__file__).parents[1] / "tests" / "data"
MAX_SUM = 1 << 63
MAX_REGION = 1 << 46
CHANGE = Struct("<BBBQ")
CHUNK_CHANGE = Struct("<BHQ")
WORD = Struct("<HQ")
U64 = Struct("<Q")
INSTANTS = ("end", "start", "peak:l1_used", "oom", "#60")
_WORD = (1 << 64) - 1
# Few records, each of which an input can reach: a reader's time goes with their number.
RECORDS = 8
KEPT = {
    Section.TEXT: 256,
    Section.DEVICES: 4,
    Section.SETS: 4,
    Section.CORES: 4,
    Section.FAILURES: 4,
}
SEALED = {
    Section.RING,
    Section.LIVE,
    Section.DEVICES,
    Section.SETS,
    Section.CORES,
    Section.FAILURES,
}


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
        assert all(len(item) % EVENT_SIZE == 0 for item in items if isinstance(item, bytes))
        assert not any(isinstance(item, Problem) and item.ends for item in items[:-1])
    assert not whole.waiting
    assert _events(once) == _events(twice)


def _events(items: list[Item]) -> bytes:
    return b"".join(item for item in items if isinstance(item, bytes))


@dataclass(frozen=True)
class _Ground:
    """The golden regions, and who is alive: asked once for each pid, not for each input."""

    lives: ProcessStates
    regions: list[tuple[int, bytes]]


@cache
def _ground() -> _Ground:
    paths = sorted((GOLDEN / "regions").iterdir())
    golden = [(int(path.name.split("_")[2]), path.read_bytes()) for path in paths]
    golden += [(number, data[:9248]) for number, data in golden if len(data) == 9280]
    return _Ground(
        ProcessStates(), [(number, _with_a_live_process(data)) for number, data in golden]
    )


def _with_a_live_process(data: bytes) -> bytes:
    """The second slot is ours: half of the judgement is about processes that are alive."""
    layout = LAYOUTS[len(data)]
    out = bytearray(data)
    counters = range(1, 6 + layout.counts_kernels)
    slot = layout.process.pack(os.getpid(), *counters, time.time_ns(), b"python")
    out[layout.place(1) : layout.place(2)] = slot
    return bytes(out)


def shared_memory(data: bytes) -> None:
    """Which golden region, then changes: where (in steps of four bytes), and what stands there."""
    ground = _ground()
    number, sound = ground.regions[data[0] % len(ground.regions) if data else 0]
    changed = bytearray(sound)
    for place, value in WORD.iter_unpack(_whole(data[1:], WORD)):
        U64.pack_into(changed, place * 4 % (len(sound) - 8), value)
    try:
        region = decode(bytes(changed), number)
    except (UnknownLayout, Unsettled):
        return
    if len(ground.lives) > 1000:
        ground.lives.close()
    found = SlotReader().read(region.slots, (0, 0), ground.lives, ProcScan(), os.getuid())
    remarks = [*found.remarks, *table_remarks(region), *cross_checks(found.in_use, region)]
    assert max(found.in_use) < MAX_SUM
    assert found.in_use == in_use(found.processes)
    assert all(remark.text.isprintable() for remark in remarks)


def _whole(data: bytes, part: Struct) -> bytes:
    return data[: len(data) // part.size * part.size]


def _mixed(total: int, word: int) -> int:
    total = (total ^ word) * 0x9E3779B97F4A7C15 & _WORD
    return total ^ total >> 29


def _checksum(record: bytes, start: int = 0) -> int:
    """As `native/probe/layout.hpp` has it: an enemy can count, too."""
    one, other = start ^ 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
    for place, (word,) in enumerate(U64.iter_unpack(record[8:])):
        if place % 2:
            other = _mixed(other, word)
        else:
            one = _mixed(one, word)
    total = _mixed(one, other)
    return total + 2 if total < 2 else total


def _text_hash(text: bytes) -> int:
    total = len(text)
    whole = len(text) // 8 * 8
    for (word,) in U64.iter_unpack(text[:whole]):
        total = _mixed(total, word)
    return _mixed(total, int.from_bytes(text[whole:], "little")) | 1


class _SmallRegion:
    """The golden region with a few records of each section."""

    def __init__(self, version: int) -> None:
        golden = gzip.decompress((GOLDEN / "probe_regions" / f"version-{version}.gz").read_bytes())
        data = bytearray(golden[: layout.HEADER_SIZE])
        self.places = []
        for section in Section:
            at = layout.SECTIONS_AT + section * layout.SECTION.size
            offset, count, stride = layout.SECTION.unpack_from(golden, at)
            kept = KEPT.get(section, RECORDS)
            places: Sequence[int] = range(offset, offset + count * stride, stride)
            if section in (Section.LIVE_KEYS, Section.LIVE):  # those in use first
                places = sorted(places, key=lambda place: not any(golden[place : place + stride]))
            layout.SECTION.pack_into(data, at, len(data), kept, stride)
            self.places.append((len(data), kept, stride))
            data += b"".join(golden[place : place + stride] for place in places[:kept])
            data += bytes(-len(data) % 8)
        U64.pack_into(data, 16, len(data))
        (tickets,) = U64.unpack_from(data, layout.TICKETS_AT)
        U64.pack_into(data, layout.TICKETS_AT, min(tickets, RECORDS))
        self._folder = tempfile.TemporaryDirectory(prefix="ttmem-fuzz-", dir=FOLDER)
        self.path = os.path.join(self._folder.name, "ttmem_1_1")
        self.region = ChangedFile(Path(self.path), bytes(data))

    def change(self, section: int, record: int, word: int, value: int) -> None:
        """A section that there is none of is the header."""
        file = self.region
        if section >= len(Section):
            return file.write((record * 256 + word) % 511 * 8, U64.pack(value))
        start, kept, stride = self.places[section]
        offset = start + record % kept * stride
        file.write(offset + word * 8 % max(8, stride), U64.pack(value))
        if section in SEALED:
            file.write(offset, U64.pack(_checksum(file.read(offset, stride))))
        elif section == Section.STRINGS:
            whole = file.read(offset, stride)
            _, text_at, length = layout.STRING.unpack(whole)
            text = file.read(self.places[Section.TEXT][0] + text_at, min(length, 4096))
            file.write(offset, U64.pack(_checksum(whole, _text_hash(text))))
        return None


class _Region(ProbeRegion):
    """Of a process that nobody looks for: to search /proc for it took nine tenths of the time."""

    alive = False

    def _find_process(self) -> int:
        return self._named_pid

    def _check_owner(self) -> None: ...

    def process_alive(self) -> bool:
        return self.alive


def _events_and_sides(region: ProbeRegion) -> None:
    batch = region.new_events()
    assert len(batch.events) // EVENT_SIZE == len(batch.sides) // layout.SIDE.size


# What depends on a section. The header decides about all of them.
READERS: dict[Callable[[ProbeRegion], object], set[Section]] = {
    ProbeRegion.counters: {Section.COUNTERS},
    ProbeRegion.activity: {Section.ACTIVITY},
    _events_and_sides: {Section.RING, Section.SETS},
    ProbeRegion.new_strings: {Section.STRINGS, Section.TEXT},
    ProbeRegion.new_cores: {Section.CORES},
    ProbeRegion.live: {Section.LIVE, Section.LIVE_KEYS, Section.SETS},
    ProbeRegion.devices: {Section.DEVICES},
    ProbeRegion.failures: {Section.FAILURES, Section.SETS},
    ProbeRegion.features: {Section.FEATURES},
    ProbeRegion.losses: set(),
}


@cache
def _small_region(version: int) -> _SmallRegion:
    return _SmallRegion(version)


def probe_region(data: bytes) -> None:
    """Which golden region, and whether its process is alive, then changes: section, record, word, value.

    The checksums are made right.
    """
    first = data[0] if data else 0
    small = _small_region(1 + first % 2)
    changes = [*CHANGE.iter_unpack(_whole(data[1:], CHANGE))]
    changed = {section for section, _, _, _ in changes}
    everything = not changed or max(changed) >= len(Section)
    try:
        for change in changes:
            small.change(*change)
        with closing(_Region(small.path)) as region:
            region.alive = bool(first & 2)
            for read, sections in READERS.items():
                if everything or changed & sections:
                    read(region)
    except BadRegion:
        pass
    finally:
        small.region.restore()


def recording(data: bytes) -> None:
    """Which instant and what of it, then changes of the golden recording: chunk and what of it, where, value.

    The checksums are made right.
    """
    chunks = [*golden()]
    for what, place, value in CHUNK_CHANGE.iter_unpack(_whole(data[1:], CHUNK_CHANGE)):
        number = what % 64 % len(chunks)
        header, payload = chunks[number]
        if what >> 6 == 0:
            at = place % (len(payload) + 1)
            payload = payload[:at] + U64.pack(value) + payload[at + U64.size :]
        elif what >> 6 == 1:
            payload = payload[: place % (len(payload) + 1)]
        elif what >> 6 == 2:
            header = header._replace(position=value >> 1, lost=place)
        else:
            header = header._replace(first=value, last=value)
        chunks[number] = header, payload
    whole = b"".join(sealed(header, payload) for header, payload in chunks)
    first = data[0] if data else 0
    when = INSTANTS[first % 64 % len(INSTANTS)]
    try:
        with Recording(InMemory(whole)) as found:
            found.at(when, DETAILS if first & 64 else ())
            if first & 128:
                found.verify()
                for stretch in found.stretches():
                    assert all(totals.position >= stretch.first for totals in stretch.totals())
    except TtmemError:
        pass


def records(data: bytes) -> None:
    """As `native/records.cpp` reads them, through the module."""
    if len(data) > 1:
        size = 40 + 8 * (data[0] % 14)
        events, used, _ = decode_records(data, 2, size, data[1])
        assert used == len(events) // EVENT_SIZE * size <= len(data) - 2


def ledger(data: bytes) -> None:
    """The steps of `native/ledger.cpp` through the module, and everything that it can be asked."""
    accounts = Ledger(max_live=400, max_steps=300, seed=1)
    processes = [accounts.open_process() for _ in range(2)]
    for device in range(3):
        accounts.add_device()
        for process in processes:
            accounts.bind(process, device, device)
    for at in range(2, len(data), 1 + EVENT_SIZE):
        _step(accounts, data[at], data[at + 1 : at + 1 + EVENT_SIZE].ljust(EVENT_SIZE, b"\0"))
    assert accounts.live() == sum(map(accounts.process_live, processes)) <= 400
    _ask_everything(accounts)
    copy = Ledger(seed=2)
    copy.restore(accounts.save())
    assert copy.save() == accounts.save()
    _ask_everything(copy)
    for process in processes:
        accounts.release_process(process)
    assert accounts.live() == 0
    _ask_everything(accounts)


def _step(accounts: Ledger, command: int, event: bytes) -> None:
    _, kind, flags, device, when, id, size, _, _, number, cores, _, _ = EVENT.unpack(event)
    process = command & 1
    step = command >> 1 & 15
    if step in (1, 2, 3):
        (accounts.begin_resync, accounts.end_resync, accounts.follow_table)[step - 1](process)
    elif step == 4:
        accounts.reset_peak(device % 2)
    elif step == 5:
        accounts.move_account(process, device % 3, number % 3, when)
    elif step == 6:
        accounts.largest_free(device % 3, kind % 5, id % MAX_REGION, size % MAX_REGION, number)
    elif step == 8:
        accounts.take_rejections()
        accounts.trim()
    elif step == 9:
        accounts.define_cores(process, cores, event[16:56].ljust(128, b"\0"))
    elif step == 10:
        accounts.release_process(process)
        assert accounts.open_process() == process  # the only free index
        for each in range(3):
            accounts.bind(process, each, each)
    elif step == 11:
        accounts.clear_device(device % 3, bool(flags & 1))
    elif step == 12:
        accounts.bind(process, device % 4, number % 3)
    elif step == 15:
        if event[0] not in (Control.OPEN_PROCESS, Control.RELEASE_PROCESS):
            with suppress(ValueError):
                accounts.replay(event)
    elif step == 13:
        _, text = accounts.apply_in_words(
            process, event, 0, EVENT_SIZE, 1 << 60, number, when, bool(id & 1)
        )
        assert all(line.isprintable() for line in text.decode().splitlines())
    else:
        accounts.apply(process, event, 0, EVENT_SIZE, 1 << 60)


def _ask_everything(accounts: Ledger) -> None:
    answers = [accounts.accounts(), accounts.devices(), accounts.findings()]
    for rows in (
        accounts.buffers,
        accounts.l1_buffers,
        accounts.circular_buffers,
        accounts.kernels,
        accounts.programs,
    ):
        answers += [rows(), rows(2), rows(0, 1), rows(1, 2)]
    assert not any(len(answer) % U64.size for answer in answers)
    for device in range(3):
        for _, mask, covered, ranges, _ in accounts.core_map(device):
            assert len(mask) == 128
            assert covered == sum(end - start for start, end in ranges)
        accounts.resident_map(device)


ALL: dict[str, Callable[[bytes], None]] = {
    "frames": frames,
    "historical": historical,
    "shared_memory": shared_memory,
    "probe_region": probe_region,
    "recording": recording,
}
# The native ones have fuzzers of their own (`native`); here they are as Python meets them.
NATIVE: dict[str, Callable[[bytes], None]] = {"records": records, "ledger": ledger}
