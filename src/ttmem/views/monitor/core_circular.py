"""The circular buffers of one core, lowest first: of the program that ran last, then of the cached ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ttmem.snapshots import Device, L1Map, Snapshot
from ttmem.views.monitor.address_ranges import Range, union
from ttmem.views.monitor.core_details import (
    Core,
    CoreSet,
    ResidentBuffer,
    Unknown,
    core_sets,
    resident_buffers,
)


def owner_label(pids: Sequence[int | None]) -> str:
    """' pid 41235 +2': whose, and how many others have something at the same addresses."""
    if not pids:
        return ""
    return f" pid {pids[0]}" + (f" +{len(pids) - 1}" if len(pids) > 1 else "")


@dataclass(frozen=True, slots=True)
class CircularPart:
    """Addresses that circular buffers use, and whose they are."""

    start: int
    end: int
    resident: bool  # of the program that ran last; else cached programs would use it
    dataflow: bool
    program: int | None
    pids: tuple[int, ...]  # the program's first

    @property
    def label(self) -> str:
        """'CB pid 41235 +2 program 5'; what is cached names the program that reaches highest."""
        what = "dataflow" if self.dataflow else "CB" if self.resident else "cached"
        program = "" if self.program is None else f" program {self.program}"
        return f"{what}{owner_label(self.pids)}{program}"


def circular_parts(
    snapshot: Snapshot, device: Device, core: Core, layout: L1Map
) -> tuple[CircularPart, ...]:
    """Without gaps where addresses are in use; Unknown if nobody tells them."""
    sets = [one for one in core_sets(snapshot, device) if core in one.cores]
    for start, end in (region for one in sets for region in one.regions):
        if start < layout.base or end > layout.end:
            raise Unknown(f"one lies at {start:#x} to {end:#x}, outside of what can be allocated")
    here = [one for one in resident_buffers(snapshot, device) if core in one.cores]
    resident = [_with_others(part, sets) for part in _resident(here, layout)]
    cached = _without(union(region for one in sets for region in one.regions), resident)
    parts = [*resident, *(_cached(region, sets) for region in cached)]
    return tuple(sorted(parts, key=lambda part: part.start))


def _resident(buffers: Iterable[ResidentBuffer], layout: L1Map) -> list[CircularPart]:
    """Some share their addresses; each address shows once."""
    out: list[CircularPart] = []
    for one in sorted(buffers, key=lambda one: (one.start, one.end)):
        start = max(one.start, out[-1].end if out else layout.base)
        if start < one.end <= layout.end:
            pids = () if one.pid is None else (one.pid,)
            out.append(CircularPart(start, one.end, True, one.dataflow, one.program, pids))
    return out


def _with_others(part: CircularPart, sets: Iterable[CoreSet]) -> CircularPart:
    """Other processes have cached programs there, too."""
    others = {one.pid for one in _owners(part.start, part.end, sets) if one.pid is not None}
    return replace(part, pids=(*part.pids, *sorted(others.difference(part.pids))))


def _owners(start: int, end: int, sets: Iterable[CoreSet]) -> list[CoreSet]:
    return [one for one in sets if any(low < end and start < high for low, high in one.regions)]


def _cached(region: Range, sets: Iterable[CoreSet]) -> CircularPart:
    start, end = region
    owners = _owners(start, end, sets)
    highest = [one for one in owners if one.regions and one.regions[-1][1] == end]
    top = next(iter(highest), None)
    pids = sorted({one.pid for one in owners if one.pid is not None})
    if top is not None and top.pid is not None:
        pids.sort(key=lambda pid: pid != top.pid)
    return CircularPart(start, end, False, False, top.highest_program if top else None, tuple(pids))


def _without(regions: Iterable[Range], parts: Iterable[CircularPart]) -> list[Range]:
    """What of the regions is in none of the parts, which are in order."""
    taken = list(parts)
    out: list[Range] = []
    for start, end in regions:
        for part in taken:
            if part.end <= start or part.start >= end:
                continue
            if part.start > start:
                out.append((start, part.start))
            start = max(start, part.end)
        if start < end:
            out.append((start, end))
    return out
