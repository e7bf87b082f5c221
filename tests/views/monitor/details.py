"""Snapshots with single buffers, kernels, programs and events, for the pages that list them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.views.builders import KIB, MIB, NOW, device, process, snapshot
from tests.views.cases import CASES
from ttmem.events import Amounts
from ttmem.snapshots import (
    Device,
    Footprint,
    Kernels,
    Memory,
    MemoryUse,
    Provenance,
    Ring,
    Snapshot,
)

SECOND = 1_000_000_000
KINDS = ("dram", "l1", "l1_small", "trace")
OPS = ("matmul", "layer_norm", "softmax", "reshape_view")
Detail = dict[str, list[dict[str, Any]]]


def with_details(of: Snapshot, per_device: int = 6) -> Snapshot:
    """The same picture with entries on each device that fit its sums, as far as pages can tell."""
    detail: Detail = {
        name: [] for name in ("buffers", "kernels", "programs", "circular_buffers", "events")
    }
    pids = {uid: one.pid for one in of.processes for uid in one.devices}
    devices = [_listed(one, pids.get(one.unique_id), per_device, detail) for one in of.devices]
    return replace(of, devices=tuple(devices), detail=dict(detail))


def _listed(of: Device, pid: int | None, number: int, detail: Detail) -> Device:
    owner: dict[str, Any] = {"pid": pid, "device": of.unique_id}
    dram, l1, l1_small, trace = (_buffers(of, kind, owner, number, detail) for kind in KINDS)
    memory = Memory(dram, l1, l1_small, trace, of.memory.cb)
    code = _code(of.kernels, owner, number, detail)
    _events(owner, number, detail)
    return replace(of, memory=memory, kernels=code)


def _buffers(
    of: Device, kind: str, owner: dict[str, Any], number: int, detail: Detail
) -> MemoryUse:
    use: MemoryUse = getattr(of.memory, kind)
    if not use.held:
        return replace(use, count=0)
    parts = [use.held // number] * (number - 1)
    for at, size in enumerate([use.held - sum(parts), *parts]):
        detail["buffers"].append(
            {
                **owner,
                "kind": kind.upper(),
                "id": 0x1000 + at,
                "address": 0x100040 + at * 0x6B000 if kind == "dram" else None,
                "requested": size - 512 if size > 512 else size,
                "reserved": size,
                "references": 1,
                "time_ns": NOW - (at + 1) * 47 * SECOND,
                "name": f"layers.{at}.wqkv" if kind == "dram" else None,
                "site": f"models/tt_transformers/tt/attention.py:{120 + at} forward",
            }
        )
    return replace(use, count=number)


def _code(code: Kernels, owner: dict[str, Any], number: int, detail: Detail) -> Kernels:
    statuses = ("Committed", "InFlight", "NotSent", None)
    for at in range(number):
        program = {**owner, "program": 40 + at}
        binary = (at + 1) * 3 * KIB if at else None
        detail["programs"].append(
            {
                **program,
                "status": statuses[at % 4],
                "dispatches": 4_096 >> at,
                "cache_hits": (4_096 >> at) - 1,
                "cache_misses": 1,
                "last_dispatch_ns": NOW - at * 40 * SECOND if at < 5 else None,
                "resident": at * 64 * KIB,
                "resident_cores": 64 if at else 0,
            }
        )
        detail["kernels"].append(
            {
                **program,
                "type": ("application", "application", "fabric", "dispatch")[at % 4],
                "id": 7_000 + at,
                "name": f"compute_{OPS[at % 4]}" if at else None,
                "binary": binary,
                "cores": 64 if at else None,
                "footprint": binary * 64 if binary else 2 * MIB,
                "loads": 1,
                "dispatches": 4_096 >> at,
            }
        )
        detail["circular_buffers"].append(
            {**program, "size": at * MIB, "references": 2, "global": at == 3}
        )
    return replace(code, count=number, ring=Ring(4_521_984, 2_100_224 + number, 12, 31, 5))


def _events(owner: dict[str, Any], number: int, detail: Detail) -> None:
    said: list[dict[str, Any]] = [
        {"op": "ALLOC", "kind": "DRAM", "size": 32 * MIB, "name": "kv", "site": "serve.py:88"},
        {"op": "PROGRAM_DISPATCH", "kind": None, "flags": ["CACHE_HIT"], "size": 0},
        {"op": "BINARY_STATUS", "kind": "IN_FLIGHT", "size": 0},
        {"op": "FREE", "kind": None, "size": 0},
        {"op": "KERNEL_LOAD", "kind": "FABRIC", "size": 57_344, "name": "fabric_erisc_router"},
        {"op": "CB_ALLOC", "kind": None, "flags": ["DATAFLOW", "RESENT"], "size": 512 * KIB},
    ]
    for at in range(number):
        time = NOW - (number - at) * 125_000_000
        detail["events"].append({**owner, "time_ns": time, "id": 0x77 + at, **said[at % 6]})


def hostile_details() -> Snapshot:
    """Names and sites that would write to the terminal, and values that are no values."""
    clean = with_details(CASES["hostile_strings"]())
    detail = {name: list(rows) for name, rows in clean.detail.items()}
    evil = {"name": "\x1b[2J\x1b]0;owned\x07", "site": "推論" * 40 + ":7\n", "status": "\u202eok"}
    for rows in detail.values():
        rows[0] = {**rows[0], **evil}
        rows[1] = {**rows[1], **dict.fromkeys(rows[1], -1), "device": rows[0]["device"]}
        rows[2] = {**rows[2], **dict.fromkeys(rows[2], 10**400), "device": rows[0]["device"]}
        rows += [None, 7, {}, {"device": rows[0]["device"], "op": ["?"], "flags": {"a": 1}}]
    return replace(clean, detail=detail)


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
    empty: Detail = {name: [] for name in ("buffers", "kernels", "programs", "events")}
    return snapshot([chip], [replace(owner, sources=("shared memory v3",))], detail=empty)


DETAIL_CASES: dict[str, Callable[[], Snapshot]] = {
    "empty": CASES["empty_host"],
    "one": lambda: with_details(CASES["one_device"](), 9),
    "four": lambda: with_details(CASES["four_devices"]()),
    "thirty_two": lambda: with_details(CASES["thirty_two_devices"](), 40),
    "hostile": hostile_details,
    "sums_only": sums_only,
}
