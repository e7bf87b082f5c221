"""Honest processes that use memory, each with an account of its own: a plain dictionary, and no code of ttmem's ledger.

`python -m chaos.actor KIND SEED SOCKET FOLDER FIRST` works until it is told `pause` (it then says what it holds, as one
line of JSON), `go` or `end`.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import random
import select
import socket
import struct
import sys
from collections import Counter
from pathlib import Path
from typing import Any, Protocol

from tests.sources.region_writer import Five, Slot, Written

from ttmem.client import AllocationClient, DeviceDeclaration, MemoryKind
from ttmem.clock import now_ns
from ttmem.events import Op
from ttmem.hw import device_spec
from ttmem.wire.historical import Head, Message, encode

KINDS = {"dram": 0, "l1": 1, "l1_small": 3, "trace": 4}  # the runtime's own numbers
HISTORICAL_DEVICE = 77  # that is known by number only
SHARED = 2  # devices that all clients have
QUEUE = 4096  # events; a server that is stopped for a second makes some of them drop
ENOUGH = 300  # live things of an actor; then it frees more than it allocates
BANKS = {"dram": 8, "l1": 110, "l1_small": 110, "trace": 110}  # of the small runtime's devices
FLUSH_S = 60.0


class Account:
    """What this process holds."""

    def __init__(self) -> None:
        self.live: dict[tuple[str, str, int], int] = {}

    def totals(self) -> dict[str, dict[str, int]]:
        found: dict[str, Counter[str]] = {}
        for (device, kind, _), size in self.live.items():
            found.setdefault(device, Counter())[kind] += size
        return {device: dict(kinds) for device, kinds in found.items()}


class Actor(Protocol):
    """One way to report."""

    account: Account

    def act(self, chance: random.Random) -> None: ...

    def settle(self) -> dict[str, Any]: ...


class Client:
    """Reports by ttmem's own client: two devices that others use too, and one of its own that counts dispatches."""

    def __init__(self, path: str, folder: str, first: int) -> None:
        self.account = Account()
        self._client = AllocationClient(path, queue_limit=QUEUE)
        self._devices = [str(first - first % 1000 + at) for at in range(SHARED)] + [str(first)]
        board = device_spec("n300")
        for number, unique_id in enumerate(self._devices):
            self._client.declare_device(DeviceDeclaration.from_spec(board, number, unique_id))
        self._next = self._dispatches = 0

    def act(self, chance: random.Random) -> None:
        if chance.random() < 0.2:
            self._dispatches += 1
            self._client.report_program_dispatch(SHARED, 1)
            return
        live = self.account.live
        if live and chance.random() < (0.8 if len(live) > ENOUGH else 0.4):
            device, kind, number = key = chance.choice([*live])
            size = live.pop(key)
            at = self._devices.index(device)
            if kind == "cb":
                self._client.report_cb_deallocation(at, number, size, program_id=1)
            else:
                self._client.report_deallocation(at, number, MemoryKind(KINDS[kind]), size)
            return
        self._next += 1
        at = chance.randrange(len(self._devices))
        kind = chance.choice([*KINDS, "cb"])
        size = 32 * chance.randint(1, 64)
        number = self._next
        if kind == "cb":
            number = (
                0x20000 + 4096 * number
            )  # addresses: no two overlap, so their union is their sum
            self._client.report_cb_allocation(at, number, size, program_id=1)
        else:
            memory = MemoryKind(KINDS[kind])
            self._client.report_allocation(at, number, size, memory, site=f"actor.py:{number % 90}")
        live[self._devices[at], kind, number] = size

    def settle(self) -> dict[str, Any]:
        flushed = self._client.flush(FLUSH_S)
        stats = self._client.stats()
        return {
            "dispatches": self._dispatches,
            "dropped": stats.dropped,
            "resyncs": stats.resyncs,
            "device": self._devices[-1],
            "flushed": flushed,
        }


class Historical:
    """Reports in the records of the original client, which cannot tell anything again: it ends with its connection."""

    def __init__(self, path: str, folder: str, first: int) -> None:
        self.account = Account()
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(path)
        self._next = 0

    def _send(self, message: Op | Message, size: int = 0, kind: int = 0, number: int = 0) -> None:
        head = Head(message, HISTORICAL_DEVICE, size, kind, os.getpid(), number)
        self._socket.sendall(encode(144, head))

    def act(self, chance: random.Random) -> None:
        live = self.account.live
        if live and chance.random() < (0.8 if len(live) > ENOUGH else 0.4):
            _, kind, number = key = chance.choice([*live])
            live.pop(key)
            self._send(Op.FREE, 0, KINDS[kind], number)
            return
        self._next += 1
        kind, size = chance.choice([*KINDS]), 32 * chance.randint(1, 64)
        self._send(Op.ALLOC, size, KINDS[kind], self._next)
        live[f"#{HISTORICAL_DEVICE}", kind, self._next] = size

    def settle(self) -> dict[str, Any]:
        self._send(Message.QUERY)
        left = 144
        while left:
            piece = self._socket.recv(left)
            if not piece:
                raise ConnectionResetError
            left -= len(piece)
        return {}


class Watched:
    """A process under the probe, with the small runtime of the tests."""

    def __init__(self, path: str, folder: str, first: int) -> None:
        self.account = Account()
        library = ctypes.CDLL(os.environ["CHAOS_RUNTIME"])
        for name in ("mesh_open_from", "buffer_make"):
            getattr(library, name).restype = ctypes.c_void_p
        u64 = ctypes.c_uint64
        library.mesh_open_from.argtypes = [ctypes.c_int, u64]
        library.buffer_make.argtypes = [ctypes.c_void_p, u64, ctypes.c_int, u64, u64]
        for name in ("buffer_allocate", "buffer_free"):
            getattr(library, name).argtypes = [ctypes.c_void_p]
        self._library = library
        self._device = str(first)
        self._mesh = library.mesh_open_from(1, first)
        self._handles: dict[int, int] = {}
        self._next = 0

    def act(self, chance: random.Random) -> None:
        live = self.account.live
        if live and chance.random() < (0.8 if len(live) > ENOUGH else 0.4):
            key = chance.choice([*live])
            live.pop(key)
            self._library.buffer_free(self._handles.pop(key[2]))
            return
        self._next += 1
        kind, per_bank = chance.choice([*KINDS]), 64 * chance.randint(1, 64)
        reserved = per_bank * BANKS[kind]
        size = reserved - chance.randint(0, 31)
        made = self._library.buffer_make(self._mesh, self._next, KINDS[kind], size, per_bank)
        if self._library.buffer_allocate(made):
            raise RuntimeError("the small runtime refused a buffer")
        self._handles[self._next] = made
        live[self._device, kind, self._next] = reserved

    def settle(self) -> dict[str, Any]:
        return {}


class Counters:
    """What stock ttnn does without the probe: counters in shared memory, which it keeps mapped."""

    def __init__(self, path: str, folder: str, first: int) -> None:
        self.account = Account()
        self._device = str(first)
        self._written = Written(number=first, slots=[Slot(os.getpid())])
        place = self._written.write(Path(folder))
        place.chmod(0o600)
        with place.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)

    def act(self, chance: random.Random) -> None:
        for kind in KINDS:
            self.account.live[self._device, kind, 0] = 32 * chance.randint(1, 1000)
        self._publish()

    def _publish(self) -> None:
        held = [self.account.live.get((self._device, kind, 0), 0) for kind in KINDS]
        five: Five = (held[0], held[1], held[2], held[3], 0)
        struct.pack_into("<5Q", self._map, 48, *five)
        struct.pack_into("<5Q", self._map, 88 + 8, *five)
        struct.pack_into("<5Q", self._map, 856 + 8, *five)
        struct.pack_into("<Q", self._map, 856 + 48, now_ns())

    def settle(self) -> dict[str, Any]:
        self._publish()
        return {}


ACTORS: dict[str, type[Client] | type[Historical] | type[Watched] | type[Counters]] = {
    "client": Client,
    "historical": Historical,
    "watched": Watched,
    "counters": Counters,
}


def _work(actor: Actor, chance: random.Random) -> None:
    working = True
    while True:
        ready, _, _ = select.select([sys.stdin], [], [], 0.01 if working else None)
        if ready:
            word = sys.stdin.readline().strip()
            if word in ("end", ""):
                return
            working = word == "go"
            if not working:
                told = actor.settle() | {"held": actor.account.totals()}
                print(json.dumps(told), flush=True)
        if working:
            for number in range(1, 1 + _burst(actor, chance)):
                actor.act(chance)
                if number % 500 == 0 and select.select([sys.stdin], [], [], 0)[0]:
                    break  # on a busy machine 30,000 may take minutes


def _burst(actor: Actor, chance: random.Random) -> int:
    """Sometimes more than a client's queue and a socket hold together."""
    if isinstance(actor, Counters):
        return 1
    if isinstance(actor, Client) and chance.random() < 0.01:
        return 30_000
    return chance.choice((5, 50, 200))


def main() -> int:
    kind, seed, path, folder, first = sys.argv[1:]
    actor = ACTORS[kind](path, folder, int(first))
    print("ready", flush=True)
    try:
        _work(actor, random.Random(seed))
    except (ConnectionError, BrokenPipeError):
        pass  # of the original client: the server is gone
    return 0


if __name__ == "__main__":
    sys.exit(main())
