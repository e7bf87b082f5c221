"""What is alive, grouped by who made it: call site, operation, phase or process.

Every byte of the processes' sums is in one group. Circular buffers of cached programs share addresses, so that no
single line of code has a part of them: by site, op and phase they are one group of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from ttmem.snapshots import Held, Snapshot
from ttmem.views.groupings import BY

_KINDS = ("dram", "l1", "l1_small", "trace")


class What(Enum):
    """What a group is made of."""

    NAMED = "buffers"
    UNNAMED = "buffers without a name"  # nobody told which site, op or phase
    CIRCULAR = "circular buffers"
    SUMS = "sums only"  # of processes whose single buffers nobody told


@dataclass(slots=True)
class LiveGroup:
    """Live bytes in the measure of the sums: reserved where it is known, else requested."""

    what: What
    key: str | int | None
    dram: int = 0
    l1: int = 0
    l1_small: int = 0
    trace: int = 0
    cb: int = 0
    count: int | None = 0  # buffers; None: nobody knows

    @property
    def l1_used(self) -> int:
        """Its part of the L1 sums."""
        return self.l1 + self.l1_small + self.cb

    @property
    def all(self) -> int:
        """Of all memories."""
        return self.dram + self.trace + self.l1_used


@dataclass(frozen=True, slots=True)
class Grouped:
    """Groups, the largest first, and their sum, which is that of the processes."""

    by: str
    groups: tuple[LiveGroup, ...]
    total: LiveGroup


def live_groups(snapshot: Snapshot, by: str) -> Grouped:
    """Of a snapshot with the detail `buffers`, or none where all sources have sums only."""
    total = _sum_of(snapshot)
    groups = _of_buffers(snapshot.detail.get("buffers", ()), by)
    if by == "pid":
        _add_sums(groups, snapshot)
    else:
        _add_rest(groups, total)
    named = [group for group in groups.values() if group.what is What.NAMED]
    others = [group for group in groups.values() if group.what is not What.NAMED and group.all]
    ordered = [*sorted(named, key=lambda group: -group.all), *others]
    counts = [group.count for group in ordered if group.count is not None]
    total.count = sum(counts) if len(counts) == len(ordered) else None
    return Grouped(by, tuple(ordered), total)


Groups = dict[tuple[What, Any], LiveGroup]


def _group(groups: Groups, what: What, key: str | int | None = None) -> LiveGroup:
    return groups.setdefault((what, key), LiveGroup(what, key))


def _of_buffers(rows: Iterable[Mapping[str, Any]], by: str) -> Groups:
    groups: Groups = {}
    for row in rows:
        kind = str(row["kind"]).lower()
        if kind not in _KINDS:  # memory of the host is in no sum
            continue
        key = row.get(BY[by])
        group = _group(groups, What.UNNAMED if key is None else What.NAMED, key)
        held = int(row.get("reserved") or row["requested"])
        setattr(group, kind, getattr(group, kind) + held)
        group.count = (group.count or 0) + 1
    return groups


def _add_sums(groups: Groups, snapshot: Snapshot) -> None:
    """A process has its circular buffers to itself; where only its sums are known, these are."""
    for process in snapshot.processes:
        group = _group(groups, What.NAMED, process.pid)
        sums = _sum(process.devices.values())
        counted = group.count
        groups[What.NAMED, process.pid] = sums
        sums.what, sums.key = What.NAMED, process.pid
        sums.count = counted if counted or not sums.all else None


def _add_rest(groups: Groups, total: LiveGroup) -> None:
    rest = {
        kind: getattr(total, kind) - sum(getattr(group, kind) for group in groups.values())
        for kind in _KINDS
    }
    if any(rest.values()):
        groups[What.SUMS, None] = LiveGroup(What.SUMS, None, **rest, count=None)
    _group(groups, What.CIRCULAR).cb = total.cb


def _sum_of(snapshot: Snapshot) -> LiveGroup:
    ids = {device.unique_id for device in snapshot.devices}
    return _sum(
        held
        for process in snapshot.processes
        for unique_id, held in process.devices.items()
        if unique_id in ids
    )


def _sum(parts: Iterable[Held]) -> LiveGroup:
    out = LiveGroup(What.SUMS, None, count=None)
    for held in parts:
        for kind in (*_KINDS, "cb"):
            setattr(out, kind, getattr(out, kind) + getattr(held, kind))
    return out
