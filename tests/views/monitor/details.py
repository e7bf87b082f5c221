"""Snapshots with single buffers, kernels, programs and events, for the pages that list them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from tests.views.builders import KIB, MIB, NOW, device, process, snapshot
from tests.views.cases import CASES
from ttmem.events import Amounts
from ttmem.snapshots import (
    Buffer,
    CircularBuffer,
    Device,
    Footprint,
    Kernel,
    Kernels,
    LoggedEvent,
    Memory,
    MemoryUse,
    Program,
    Provenance,
    Ring,
    Snapshot,
)

SECOND = 1_000_000_000
KINDS = ("dram", "l1", "l1_small", "trace")
OPS = ("matmul", "layer_norm", "softmax", "reshape_view")


@dataclass
class Listed:
    """The rows of all devices."""

    buffers: list[Buffer] = field(default_factory=list)
    kernels: list[Kernel] = field(default_factory=list)
    programs: list[Program] = field(default_factory=list)
    circular_buffers: list[CircularBuffer] = field(default_factory=list)
    events: list[LoggedEvent] = field(default_factory=list)

    def add_to(self, snapshot: Snapshot) -> Snapshot:
        rows: dict[str, Any] = {name: tuple(rows) for name, rows in vars(self).items()}
        return replace(snapshot, **rows)


def with_details(of: Snapshot, per_device: int = 6) -> Snapshot:
    """The same snapshot with rows for each device that fit its sums, as far as pages can tell."""
    listed = Listed()
    pids = {uid: one.pid for one in of.processes for uid in one.devices}
    devices = [_listed(one, pids.get(one.unique_id), per_device, listed) for one in of.devices]
    return replace(listed.add_to(of), devices=tuple(devices))


def _listed(of: Device, pid: int | None, number: int, listed: Listed) -> Device:
    dram, l1, l1_small, trace = (_buffers(of, kind, pid, number, listed) for kind in KINDS)
    memory = Memory(dram, l1, l1_small, trace, of.memory.cb)
    code = _code(of, pid, number, listed)
    _events(of.unique_id, pid, number, listed)
    return replace(of, memory=memory, kernels=code)


def _buffers(of: Device, kind: str, pid: int | None, number: int, listed: Listed) -> MemoryUse:
    use: MemoryUse = getattr(of.memory, kind)
    if not use.held:
        return replace(use, count=0)
    parts = [use.held // number] * (number - 1)
    for at, size in enumerate([use.held - sum(parts), *parts]):
        listed.buffers.append(
            Buffer(
                pid,
                of.unique_id,
                kind.upper(),
                0x1000 + at,
                0x100040 + at * 0x6B000 if kind == "dram" else None,
                size - 512 if size > 512 else size,
                size,
                time_ns=NOW - (at + 1) * 47 * SECOND,
                name=f"layers.{at}.wqkv" if kind == "dram" else None,
                site=f"models/tt_transformers/tt/attention.py:{120 + at} forward",
            )
        )
    return replace(use, count=number)


def _code(of: Device, pid: int | None, number: int, listed: Listed) -> Kernels:
    statuses = ("Committed", "InFlight", "NotSent", None)
    for at in range(number):
        program = 40 + at
        binary = (at + 1) * 3 * KIB if at else None
        listed.programs.append(
            Program(
                pid,
                of.unique_id,
                program,
                statuses[at % 4],
                dispatches=4_096 >> at,
                cache_hits=(4_096 >> at) - 1 if at < 13 else None,
                cache_misses=1,
                last_dispatch_ns=NOW - at * 40 * SECOND if at < 5 else None,
                resident=at * 64 * KIB,
                resident_cores=64 if at else 0,
            )
        )
        listed.kernels.append(
            Kernel(
                pid,
                of.unique_id,
                ("application", "application", "fabric", "dispatch")[at % 4],
                7_000 + at,
                program,
                f"compute_{OPS[at % 4]}" if at else None,
                binary,
                64 if at else None,
                binary * 64 if binary else 2 * MIB,
                loads=1,
                dispatches=4_096 >> at,
            )
        )
        size = at * MIB
        listed.circular_buffers.append(
            CircularBuffer(pid, of.unique_id, program, size=size, references=2, is_global=at == 3)
        )
    return replace(of.kernels, count=number, ring=Ring(4_521_984, 2_100_224 + number, 12, 31, 5))


def _events(device: str, pid: int | None, number: int, listed: Listed) -> None:
    said: list[dict[str, Any]] = [
        {"op": "ALLOC", "kind": "DRAM", "size": 32 * MIB, "name": "kv", "site": "serve.py:88"},
        {"op": "PROGRAM_DISPATCH", "flags": ("CACHE_HIT",), "size": 0},
        {"op": "BINARY_STATUS", "kind": "IN_FLIGHT", "size": 0},
        {"op": "FREE", "size": 0},
        {"op": "KERNEL_LOAD", "kind": "FABRIC", "size": 57_344, "name": "fabric_erisc_router"},
        {"op": "CB_ALLOC", "flags": ("DATAFLOW", "RESENT"), "size": 512 * KIB},
    ]
    for at in range(number):
        time = NOW - (number - at) * 125_000_000
        listed.events.append(LoggedEvent(time, pid, device, id=0x77 + at, **said[at % 6]))


def hostile_details() -> Snapshot:
    """Names and sites that would write to the terminal."""
    clean = with_details(CASES["hostile_strings"]())
    evil = {"name": "\x1b[2J\x1b]0;owned\x07", "site": "推論" * 40 + ":7\n", "status": "\u202eok"}
    details: dict[str, Any] = {}
    for name in ("buffers", "kernels", "programs", "events"):
        first, *rest = getattr(clean, name)
        fields = {key: text for key, text in evil.items() if key in first._fields}
        details[name] = (first._replace(**fields), *rest)
    return replace(clean, **details)


def sums_only() -> Snapshot:
    """Stock ttnn: counters in shared memory, not one event."""
    stock = Provenance("shared memory v3", "sum of live slots", "other threads")
    chip = device(0, l1=3 * MIB, provenance={"l1": stock})
    dram, l1, l1_small, trace = (replace(getattr(chip.memory, one), count=None) for one in KINDS)
    chip = replace(chip, memory=Memory(dram, l1, l1_small, trace, chip.memory.cb))
    silent = Footprint(None, None, None)
    code = replace(chip.kernels, count=None, loads=None, dispatches=None, footprint=silent)
    chip = replace(chip, kernels=code)
    owner = process(41235, "python demo.py", {chip.unique_id: Amounts(0, 3 * MIB, 0, 0, 0)})
    counted = replace(owner, sources=("shared memory v3",))
    return snapshot([chip], [counted], buffers=(), kernels=(), programs=(), events=())


DETAIL_CASES: dict[str, Callable[[], Snapshot]] = {
    "empty": CASES["empty_host"],
    "one": lambda: with_details(CASES["one_device"](), 9),
    "four": lambda: with_details(CASES["four_devices"]()),
    "thirty_two": lambda: with_details(CASES["thirty_two_devices"](), 40),
    "hostile": hostile_details,
    "sums_only": sums_only,
}
