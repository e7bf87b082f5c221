"""`ttmem dump --json`: what is allocated, grouped by device, kind and process."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from ttmem.events import Amounts
from ttmem.snapshots import Buffer, CircularBuffer, Device, Kernel, Process, Snapshot, to_json
from ttmem.snapshots.convert import write
from ttmem.views.names import in_order
from ttmem.views.notes import COUNTERS

Entry = Buffer | CircularBuffer | Kernel
CB = "CB"
HOST_MEMORY = "SYSTEM_MEMORY"


@dataclass(frozen=True, slots=True)
class Group:
    """All of one kind that one process holds on one device."""

    kind: str
    pid: int | None
    command: str | None
    count: int | None  # None: only totals are known
    requested: int | None
    held: int
    share: float | None  # of this kind on this device; None for an ended process
    largest: tuple[Entry, ...]
    rest: int  # bytes of those that are not in `largest`
    counted: bool = True  # False: not part of a total of the device
    ended_ns: int | None = None  # when its process ended; None: it is alive, or the time is unknown
    user: str | None = None  # of the process; None for kernels


@dataclass(frozen=True, slots=True)
class DeviceDump:
    """The groups of one device, largest first."""

    device: Device
    memory: tuple[Group, ...]
    kernels: tuple[Group, ...]


def dump_groups(
    snapshot: Snapshot, top: int, ended_ns: Mapping[int, int | None] | None = None
) -> list[DeviceDump]:
    """Devices on which something is left; `top` single entries per group, 0 for all.

    `ended_ns`: by pid, when the processes ended; None: they are alive.
    """
    # A global circular buffer lies on an L1 buffer that is listed itself, and is counted nowhere.
    circular = [one for one in snapshot.circular_buffers or () if not one.is_global]
    memory_entries = _by_owner([*(snapshot.buffers or ()), *circular])
    kernels = _by_owner(snapshot.kernels or ())
    out = []
    for device in in_order(snapshot).devices:
        memory = _memory_groups(snapshot, device, memory_entries, top, ended_ns)
        code = _kernel_groups(snapshot, device, kernels, top)
        if memory or code:
            out.append(DeviceDump(device, tuple(memory), tuple(code)))
    return out


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
    left = dump_groups(never_freed, top, ended_ns) if never_freed else []
    unlisted = sum(one.overflow for one in never_freed.processes) if never_freed else 0
    return {
        "schema": SCHEMA,
        "time_ns": snapshot.time_ns,
        "host": whole["host"],
        "devices": _devices(dump_groups(snapshot, top)),
        "never_freed": _devices(left, counted=False),
        "never_freed_unlisted": unlisted,
        "left_behind": whole["left_behind"],
        "losses": whole["losses"],
        "remarks": whole["remarks"],
    }


def _devices(dumps: Iterable[DeviceDump], **own: bool) -> list[dict[str, Any]]:
    return [
        {
            "unique_id": dump.device.unique_id,
            "logical_id": dump.device.logical_id,
            "board": dump.device.board,
            "memory": [_group_document(group) | own for group in dump.memory],
            "kernels": [_group_document(group) for group in dump.kernels],
        }
        for dump in dumps
    ]


def _group_document(group: Group) -> dict[str, Any]:
    return asdict(group) | {"largest": [write(row) for row in group.largest]}


Owner = tuple[str, int | None, str]  # device, pid, kind


def _by_owner(entries: Iterable[Entry]) -> dict[Owner, list[Entry]]:
    groups: dict[Owner, list[Entry]] = defaultdict(list)
    for entry in entries:
        groups[str(entry.device), entry.pid, _kind(entry)].append(entry)
    return groups


def _kind(entry: Entry) -> str:
    if isinstance(entry, Buffer):
        return entry.kind
    return CB if isinstance(entry, CircularBuffer) else entry.type


def _memory_groups(
    snapshot: Snapshot,
    device: Device,
    entries: Mapping[Owner, list[Entry]],
    top: int,
    ended_ns: Mapping[int, int | None] | None,
) -> list[Group]:
    totals = device.memory.amounts.by_label()
    groups = []
    for process in snapshot.processes:
        held = process.devices.get(device.unique_id, Amounts()).by_label()
        for kind in (*totals, HOST_MEMORY):
            found = entries.get((device.unique_id, process.pid, kind), [])
            amount = sum(map(_taken, found)) if kind == HOST_MEMORY else held[kind]
            if found or amount:
                total = totals.get(kind)
                group = _group(kind, process, found, amount, total, top)
                groups.append(group if ended_ns is None else _of_ended(group, ended_ns))
    return sorted(groups, key=lambda group: -group.held)


def _of_ended(group: Group, ended_ns: Mapping[int, int | None]) -> Group:
    """No shares: processes that ended within the hour are unrelated, so their sum means nothing."""
    ended = None if group.pid is None else ended_ns.get(group.pid)
    return replace(group, share=None, ended_ns=ended)


def _group(
    kind: str, process: Process, found: list[Entry], held: int, total: int | None, top: int
) -> Group:
    largest = _largest(found, top)
    return Group(
        kind=kind,
        pid=process.pid,
        command=process.command,
        count=sum(map(references, found)) if kind == CB and found else len(found) or None,
        requested=sum(map(_requested, found)) if found else counted_bytes(kind, process, held),
        held=held,
        share=held / total if total else None,
        largest=largest,
        rest=sum(map(_requested, found)) - sum(map(_requested, largest)),
        counted=total is not None,
        user=process.user,
    )


def counted_bytes(kind: str, process: Process, held: int) -> int | None:
    """Requested bytes, known from the counters of stock ttnn, except of CB, which is the addresses in use."""
    by_counters = all(source.startswith(COUNTERS) for source in process.sources)
    return held if process.sources and by_counters and kind != CB else None


def _kernel_groups(
    snapshot: Snapshot, device: Device, kernels: Mapping[Owner, list[Entry]], top: int
) -> list[Group]:
    commands = {process.pid: process.command for process in snapshot.processes}
    groups = [
        _kernel_group(kind, pid, commands.get(pid or -1), found, top)
        for (unique_id, pid, kind), found in kernels.items()
        if unique_id == device.unique_id
    ]
    return sorted(groups, key=lambda group: -group.held)


def _kernel_group(
    kind: str, pid: int | None, command: str | None, found: list[Entry], top: int
) -> Group:
    largest = _largest(found, top)
    footprint = sum(map(_requested, found))
    return Group(
        kind=f"{kind.title()} kernels",
        pid=pid,
        command=command,
        count=len(found),
        requested=None,
        held=footprint,
        share=None,
        largest=largest,
        rest=footprint - sum(map(_requested, largest)),
        counted=False,
    )


def references(entry: Entry) -> int:
    """How often it is allocated."""
    return 1 if isinstance(entry, Kernel) else entry.references or 1


def entry_size(entry: Entry) -> int:
    """Bytes of one: requested by a buffer, on all cores of a circular buffer, the footprint of a kernel."""
    if isinstance(entry, Buffer):
        return entry.requested
    return entry.size if isinstance(entry, CircularBuffer) else entry.footprint


def _requested(entry: Entry) -> int:
    times = entry.references or 1 if isinstance(entry, CircularBuffer) else 1
    return entry_size(entry) * times


def _taken(entry: Entry) -> int:
    return entry.held if isinstance(entry, Buffer) else _requested(entry)


def entry_id(entry: Entry) -> int | None:
    return None if isinstance(entry, CircularBuffer) else entry.id


def _largest(entries: list[Entry], top: int) -> tuple[Entry, ...]:
    """Equal sizes are ordered by id, so that the list is always the same."""

    def place(entry: Entry) -> tuple[int, int]:
        return -_requested(entry), entry_id(entry) or 0

    return tuple(heapq.nsmallest(top or len(entries), entries, key=place))
