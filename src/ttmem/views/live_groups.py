"""What is alive, grouped by who made it: call site, operation, phase or process.

Every byte of the processes' sums is in one group. Circular buffers of cached programs share addresses, so that no
single line of code has a part of them: by site, op and phase they are one group of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from operator import sub
from typing import Any

from ttmem.events import LABELS, Amounts
from ttmem.snapshots import Snapshot
from ttmem.views.groupings import BY


class What(Enum):
    """What a group is made of."""

    NAMED = "buffers"
    UNNAMED = "buffers without a name"  # nobody told which site, op or phase
    CIRCULAR = "circular buffers"
    SUMS = "sums only"  # of processes whose single buffers nobody told


@dataclass(frozen=True, slots=True)
class LiveGroup:
    """`held` counts reserved bytes where they are known, else requested ones, as all totals do."""

    what: What
    key: str | int | None
    held: Amounts
    count: int | None  # buffers; None if unknown


@dataclass(frozen=True, slots=True)
class Grouped:
    """Groups, the largest first, and their sum, which is that of the processes."""

    by: str
    groups: tuple[LiveGroup, ...]
    total: LiveGroup


def live_groups(snapshot: Snapshot, by: str) -> Grouped:
    """Of a snapshot with the detail `buffers`, or none where all sources have sums only."""
    ids = {device.unique_id for device in snapshot.devices}
    total = Amounts.total(
        held
        for process in snapshot.processes
        for unique_id, held in process.devices.items()
        if unique_id in ids
    )
    groups = _of_buffers(snapshot.detail.get("buffers", ()), by)
    groups = _of_processes(groups, snapshot) if by == "pid" else [*groups, *_rest(groups, total)]
    named = [group for group in groups if group.what is What.NAMED]
    others = [group for group in groups if group.what is not What.NAMED and group.held.all]
    ordered = [*sorted(named, key=lambda group: -group.held.all), *others]
    counts = [group.count for group in ordered if group.count is not None]
    count = sum(counts) if len(counts) == len(ordered) else None
    return Grouped(by, tuple(ordered), LiveGroup(What.SUMS, None, total, count))


def _of_buffers(rows: Iterable[Mapping[str, Any]], by: str) -> list[LiveGroup]:
    found: dict[Any, list[Mapping[str, Any]]] = {}
    for row in rows:
        if row["kind"] in LABELS:  # host memory is not counted
            found.setdefault(row.get(BY[by]), []).append(row)
    return [
        LiveGroup(What.UNNAMED if key is None else What.NAMED, key, _held(buffers), len(buffers))
        for key, buffers in found.items()
    ]


def _held(buffers: Iterable[Mapping[str, Any]]) -> Amounts:
    sums = dict.fromkeys(LABELS, 0)
    for row in buffers:
        sums[row["kind"]] += int(row.get("reserved") or row["requested"])
    return Amounts._make(sums.values())


def _of_processes(groups: Iterable[LiveGroup], snapshot: Snapshot) -> list[LiveGroup]:
    """A process has its circular buffers to itself; where only its sums are known, these are."""
    out = {(group.what, group.key): group for group in groups}
    for process in snapshot.processes:
        key = (What.NAMED, process.pid)
        counted = out[key].count if key in out else 0
        held = Amounts.total(process.devices.values())
        out[key] = LiveGroup(*key, held, counted if counted or not held.all else None)
    return list(out.values())


def _rest(groups: Iterable[LiveGroup], total: Amounts) -> Iterator[LiveGroup]:
    listed = Amounts.total(group.held for group in groups)
    rest = Amounts._make(map(sub, total, listed))._replace(cb=0)
    if any(rest):
        yield LiveGroup(What.SUMS, None, rest, None)
    yield LiveGroup(What.CIRCULAR, None, Amounts(cb=total.cb), 0)
