"""`python -m chaos.hostile SEED SOCKET FOLDER DEVICES PIDS`: what an ordinary user may try against root's server.

It is started by root and becomes that user before it does anything. DEVICES and PIDS are those of honest processes.
"""

from __future__ import annotations

import os
import pwd
import random
import socket
import struct
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.other_user import OTHER
from tests.sources.region_writer import Slot, Written

from ttmem.events import Event, KernelType, MemoryKind, Op
from ttmem.probe import layout
from ttmem.wire import frames
from ttmem.wire.frames import Frame
from ttmem.wire.historical import Head, Message, encode

SECONDS = 4.0  # of one attack
ENTRIES = 20_000  # live things of one attacker; more are the accounts' own business
MOST = 1 << 43


@dataclass
class Attack:
    """One attacker."""

    chance: random.Random
    path: str
    folder: Path
    devices: list[int]
    pids: list[int]
    end: float = field(default_factory=lambda: time.monotonic() + SECONDS)

    def going(self) -> bool:
        return time.monotonic() < self.end

    def connect(self, role: str | None = "monitor") -> socket.socket:
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(5)
        connection.connect(self.path)
        connection.setblocking(False)
        if role is not None:
            hello = {"pid": os.getpid(), "name": "\x1b[2J" * 9, "role": role}
            push(connection, frames.preamble() + frames.json_frame(Frame.HELLO, hello))
        return connection


def push(connection: socket.socket, data: bytes) -> int:
    """As much as goes without waiting."""
    with suppress(BlockingIOError):
        return connection.send(data, socket.MSG_NOSIGNAL)
    return 0


def pull(connection: socket.socket) -> None:
    with suppress(BlockingIOError):
        connection.recv(1 << 20)


def query_flood(it: Attack) -> None:
    """On a few connections, as fast as it goes; some answers are read."""
    detail = it.chance.choice(([], ["buffers", "events", "history", "cores", "programs"]))
    question = frames.json_frame(Frame.QUERY, {"what": "snapshot", "detail": detail}) * 100
    peers = [it.connect() for _ in range(8)]
    while it.going():
        for at, peer in enumerate(peers):
            push(peer, question)
            if at % 2:
                pull(peer)
        time.sleep(0.001)


def dump_flood(it: Attack) -> None:
    """72 bytes that make the server print everything."""
    ask = encode(72, Head(it.chance.choice((Message.DUMP_REMAINING, Message.DUMP_KERNELS)))) * 100
    peers = [it.connect(None) for _ in range(4)]
    while it.going():
        for peer in peers:
            push(peer, ask)
        time.sleep(0.001)


def connection_flood(it: Attack) -> None:
    """As many as there are, idle."""
    held = []
    while it.going():
        try:
            held.append(it.connect(it.chance.choice((None, "monitor", "application"))))
        except OSError:
            time.sleep(0.05)


def halves(it: Attack) -> None:
    """Large frames that never end."""
    peers = []
    while it.going():
        with suppress(OSError):
            peer = it.connect("application")
            push(peer, frames.HEADER.pack(Frame.EVENTS, 4 << 20) + bytes(128 << 10))
            peers.append(peer)
        for peer in peers:
            with suppress(OSError):
                push(peer, bytes(64 << 10))
        time.sleep(0.01)


def declarations(it: Attack) -> None:
    """Devices within the limits that are absurd, also under the names of honest ones; long texts, huge buffers."""
    peer = it.connect("application")
    for number in range(300):
        unique = it.chance.choice([*map(str, it.devices), f"evil {number}", "0"])
        document = {"logical_id": number, "unique_id": unique, "grid": [32, 32]}
        for name in (
            "l1_banks",
            "dram_banks",
            "l1_per_core",
            "l1_capacity",
            "cb_base",
            "dram_base",
        ):
            document[name] = it.chance.choice((0, 1, MOST, MOST - 1))
        _send(it, peer, frames.json_frame(Frame.DEVICE, document))
    events = []
    for number in range(ENTRIES):
        kind = it.chance.choice((MemoryKind.DRAM, MemoryKind.L1, MemoryKind.TRACE))
        device, size = number % 300, it.chance.choice((1, MOST, (1 << 64) - 1))
        if number % 3 == 0:
            event = Event(Op.KERNEL_LOAD, KernelType.FABRIC, device=device, id=number, size=size)
        else:
            event = Event(Op.ALLOC, kind, device=device, id=number, size=size, address=size)
        events.append(event.pack())
    for at in range(0, len(events), 1000):
        _send(it, peer, frames.frame(Frame.EVENTS, b"".join(events[at : at + 1000])))
    number = 0
    while it.going():
        number += 1
        _send(it, peer, frames.string_frame(number, f"{number}" + "x" * 4000))
        _send(it, peer, frames.frame(Frame.RESYNC_BEGIN))


def _send(it: Attack, peer: socket.socket, data: bytes) -> None:
    while data and it.going():
        sent = push(peer, data)
        data = data[sent:]
        if not sent:
            time.sleep(0.001)


def regions(it: Attack) -> None:
    """For the processes of others, beyond 64 bits, sparse, of the dead."""
    number = 0
    while it.going() and number < 50:
        number += 1
        unique = it.chance.choice(it.devices) * 10 + it.chance.randrange(10)
        # Of dead processes: live ones of root count in anybody's counter file, with a remark, by design.
        slots = [Slot(2**22 + at, (MOST, MOST, 0, 0, 0), b"\x1b[31mevil") for at in range(9)]
        with suppress(OSError):
            Written(number=unique, slots=slots).write(it.folder)
        _probe_region(it)
        time.sleep(0.02)


def _probe_region(it: Attack) -> None:
    pid = it.chance.choice([*it.pids, os.getpid(), 2**22 + 7])
    size, at = 1 << 20, layout.HEADER_SIZE
    data = bytearray(it.chance.choice((b"\xff", b"\x00", b"\x01")) * size)
    data[:at] = bytes(at)
    for section in layout.Section:
        place = layout.SECTIONS_AT + section * layout.SECTION.size
        count = it.chance.choice((1, 64, (1 << 32) - 1))
        layout.SECTION.pack_into(data, place, at, count, layout.STRIDES[section])
        at += 64 * layout.STRIDES[section]
    ticks = it.chance.randrange(1, 10**9)
    head = (layout.MAGIC, layout.VERSION, 1, size, pid, 1, ticks, 1)
    struct.pack_into("<8sIIQIIQQ", data, 0, *head)
    with suppress(OSError), (it.folder / f"ttmem_{pid}_{ticks}").open("xb") as file:
        file.write(data)
        if it.chance.random() < 0.3:
            file.truncate(1 << 40)


ATTACKS: tuple[Callable[[Attack], None], ...] = (
    query_flood,
    dump_flood,
    connection_flood,
    halves,
    declarations,
    regions,
)


def main() -> int:
    seed, path, folder, devices, pids = sys.argv[1:]
    user = pwd.getpwnam(OTHER)
    os.setgroups([])
    os.setgid(user.pw_gid)
    os.setuid(user.pw_uid)
    chance = random.Random(seed)
    it = Attack(
        chance, path, Path(folder), [*map(int, devices.split(","))], [*map(int, pids.split(","))]
    )
    with suppress(OSError):  # the server has closed the connection, as it may
        chance.choice(ATTACKS)(it)
    return 0


if __name__ == "__main__":
    sys.exit(main())
