"""`ttmem dump --json`: what is allocated, grouped by device, kind and process."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

from ttmem.events import Amounts
from ttmem.snapshots import Buffer, CircularBuffer, Device, Kernel, Process, Snapshot, to_json
from ttmem.snapshots.convert import write
from ttmem.views.names import in_order
from ttmem.views.notes import COUNTERS

Entry = Buffer | CircularBuffer | Kernel
CB = "CB"
HOST_MEMORY = "SYSTEM_MEMORY"
SCHEMA = "ttmem.dump/1"


def dump_document(
    snapshot: Snapshot,
    never_freed: Snapshot | None,
    ended_ns: Mapping[int, int | None],
    *,
    top: int,
) -> dict[str, Any]:
    """`never_freed`: ended processes as if they still held it."""
    whole = to_json(snapshot)
    left = dump_devices(never_freed, top, ended_ns) if never_freed else []
    for group in (group for device in left for group in device["memory"]):
        group["counted"] = False
    return {
        "schema": SCHEMA,
        "time_ns": snapshot.time_ns,
        "host": whole["host"],
        "devices": dump_devices(snapshot, top),
        "never_freed": left,
        "never_freed_unlisted": sum(one.overflow for one in never_freed.processes)
        if never_freed
        else 0,
        "left_behind": whole["left_behind"],
        "losses": whole["losses"],
        "remarks": whole["remarks"],
    }


def dump_devices(
    snapshot: Snapshot, top: int, ended_ns: Mapping[int, int | None] | None = None
) -> list[dict[str, Any]]:
    """Devices on which something is left, and its groups, largest first; `top` single entries per group, 0 for all.

    `ended_ns`: by pid, when the processes ended; None: they are alive.
    """
    entries: dict[tuple[str | None, int | None, str], list[Entry]] = defaultdict(list)
    for buffer in snapshot.buffers or ():
        entries[buffer.device, buffer.pid, buffer.kind].append(buffer)
    for circular in snapshot.circular_buffers or ():
        if not circular.is_global:  # it lies on an L1 buffer that is listed itself
            entries[circular.device, circular.pid, CB].append(circular)
    kernels: dict[tuple[str | None, int | None, str], list[Entry]] = defaultdict(list)
    for kernel in snapshot.kernels or ():
        kernels[kernel.device, kernel.pid, kernel.type].append(kernel)
    commands = {process.pid: process.command for process in snapshot.processes}
    out = []
    for device in in_order(snapshot).devices:
        memory = []
        for process in snapshot.processes:
            held = process.devices.get(device.unique_id, Amounts()).by_label()
            for kind in (*held, HOST_MEMORY):
                found = entries.get((device.unique_id, process.pid, kind), [])
                if found or held.get(kind):
                    memory.append(_memory_group(device, process, kind, found, top, ended_ns))
        code = [
            _kernel_group(kind, pid, commands.get(pid or -1), found, top)
            for (unique_id, pid, kind), found in kernels.items()
            if unique_id == device.unique_id
        ]
        if memory or code:
            out.append(
                {
                    "unique_id": device.unique_id,
                    "logical_id": device.logical_id,
                    "board": device.board,
                    "memory": sorted(memory, key=itemgetter("held"), reverse=True),
                    "kernels": sorted(code, key=itemgetter("held"), reverse=True),
                }
            )
    return out


def _memory_group(
    device: Device,
    process: Process,
    kind: str,
    entries: Sequence[Entry],
    top: int,
    ended_ns: Mapping[int, int | None] | None,
) -> dict[str, Any]:
    """All of one kind that one process holds on one device."""
    held = process.devices.get(device.unique_id, Amounts()).by_label().get(kind)
    if held is None:  # host memory is in no total of a device
        held = sum(entry.held for entry in entries if isinstance(entry, Buffer))
    total = device.memory.amounts.by_label().get(kind)
    requested = sum(map(_requested, entries)) if entries else counted_bytes(kind, process, held)
    return {
        "kind": kind,
        "pid": process.pid,
        "command": process.command,
        # None: only totals are known
        "count": sum(map(copies, entries)) if kind == CB and entries else len(entries) or None,
        "requested": requested,
        "held": held,
        # Processes that ended within the hour are unrelated, so a share of their sum means nothing.
        "share": held / total if total and ended_ns is None else None,
        **_largest(entries, top),
        "counted": total is not None,
        "ended_ns": None if ended_ns is None else ended_ns.get(process.pid),
        "user": process.user,
    }


def _kernel_group(
    kind: str, pid: int | None, command: str | None, kernels: Sequence[Entry], top: int
) -> dict[str, Any]:
    """Kernels of one type; they are part of no total of the device."""
    return {
        "kind": f"{kind.title()} kernels",
        "pid": pid,
        "command": command,
        "count": len(kernels),
        "requested": None,
        "held": sum(map(_requested, kernels)),
        "share": None,
        **_largest(kernels, top),
        "counted": False,
        "ended_ns": None,
        "user": None,
    }


def _largest(entries: Sequence[Entry], top: int) -> dict[str, Any]:
    """Some, and the bytes of the rest. Equal sizes are ordered by id, so that the list is always the same."""
    shown = heapq.nsmallest(
        top or len(entries), entries, key=lambda one: (-_requested(one), entry_id(one) or 0)
    )
    rest = sum(map(_requested, entries)) - sum(map(_requested, shown))
    return {"largest": [write(entry) for entry in shown], "rest": rest}


def counted_bytes(kind: str, process: Process, held: int) -> int | None:
    """Requested bytes, known from the counters of stock ttnn, except of CB, which is the addresses in use."""
    by_counters = all(source.startswith(COUNTERS) for source in process.sources)
    return held if process.sources and by_counters and kind != CB else None


def references(entry: Entry) -> int:
    """How often it is allocated."""
    return 1 if isinstance(entry, Kernel) else entry.references or 1


def copies(entry: Entry) -> int:
    """How often its size counts: circular buffers of several programs may be one entry."""
    return references(entry) if isinstance(entry, CircularBuffer) else 1


def entry_size(entry: Entry) -> int:
    """Bytes of one: requested by a buffer, on all cores of a circular buffer, the footprint of a kernel."""
    if isinstance(entry, Buffer):
        return entry.requested
    return entry.size if isinstance(entry, CircularBuffer) else entry.footprint


def _requested(entry: Entry) -> int:
    return entry_size(entry) * copies(entry)


def entry_id(entry: Entry) -> int | None:
    return None if isinstance(entry, CircularBuffer) else entry.id
