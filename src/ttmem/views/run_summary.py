"""What `ttmem run` says at the end: peaks and who made them, what was never freed, what was lost."""

from __future__ import annotations

from collections.abc import Sequence

from ttmem.analysis.holders import Holder, on_all_chips
from ttmem.analysis.peaks import Peak, peaks
from ttmem.analysis.process_picture import HighWater, ProcessPicture
from ttmem.events.kinds import MemoryKind
from ttmem.probe.layout import Counted
from ttmem.sizes import human
from ttmem.views.failure_text import kind_name
from ttmem.views.grid import Column, Grid
from ttmem.views.ink import EMPTY, Line, Style, faint, ink, paint, paragraph
from ttmem.views.names import numbers
from ttmem.views.origins import operation, place

NOTHING_SEEN = "no process of this command opened a device, so there is nothing to tell"
PROCESSES = 8  # in full; a test run may start hundreds
LEFTOVERS = 5
_BESIDE_KINDS = {
    Counted.CB_DEMAND: "CB demand",
    Counted.DATAFLOW_DEMAND: "dataflow demand",
    Counted.KERNEL_BINARIES: "kernel binaries",
}


def render_summary(pictures: Sequence[ProcessPicture], *, width: int, color: bool) -> str:
    """One block for each process that opened a device."""
    told = [picture for picture in pictures if picture.devices]
    if not told:
        return f"ttmem: {NOTHING_SEEN}"
    lines = [line for picture in told[:PROCESSES] for line in _process(picture, width)]
    if len(told) > PROCESSES:
        lines += [ink(f"ttmem: {len(told) - PROCESSES:,} more processes; `ttmem dump` has them")]
    return paint(lines, width, color)


def _process(picture: ProcessPicture, width: int) -> list[Line]:
    lines = [ink(f"ttmem: pid {picture.pid}{_how_it_is(picture)}: {_counts(picture)}", Style.TITLE)]
    lines += _peak_rows(peaks(picture.devices), width)
    lines += _leftover_rows(on_all_chips(picture.never_freed), picture.running, width)
    for loss in picture.losses:
        lines += paragraph(f"  lost: {loss}", width, Style.WARN)
    return lines


def _how_it_is(picture: ProcessPicture) -> str:
    if picture.running:
        return " (still running)"
    return "" if picture.in_order else " (did not end in order)"


def _counts(picture: ProcessPicture) -> str:
    devices = numbers(tuple(one.declaration.logical_id for one in picture.devices))
    if not picture.failures:
        return devices
    return f"{devices}, {picture.failures:,} allocations failed"


def _peak_rows(found: Sequence[Peak], width: int) -> list[Line]:
    if not found:
        return [ink("  nothing was allocated")]
    several = len({peak.chips for peak in found}) > 1
    rows = [
        [
            ink("  " + (f"{numbers(peak.chips)} " if several else "") + _kind(peak)),
            ink(human(peak.high_water.bytes)),
            ink(_size(peak)),
            *_made_by(peak.high_water),
        ]
        for peak in found
    ]
    columns = [
        Column("  PEAK OF"),
        Column("BYTES", right=True),
        Column("OF"),
        Column("MADE BY"),
        Column(""),
    ]
    return Grid(columns, rows).lines()


def _made_by(mark: HighWater) -> tuple[Line, Line]:
    if not mark.bytes:
        return faint("never used"), EMPTY
    return ink(operation(mark.origin)), ink(place(mark.origin))


def _kind(peak: Peak) -> str:
    kind = peak.high_water.kind
    return _BESIDE_KINDS[kind] if isinstance(kind, Counted) else kind_name(kind)


def _size(peak: Peak) -> str:
    if peak.setting:
        return f"{human(peak.size)}  {peak.setting.name}={peak.setting.value}, used {peak.setting.needed}"
    return human(peak.size) if isinstance(peak.high_water.kind, MemoryKind) else ""


def _leftover_rows(holders: Sequence[Holder], running: bool, width: int) -> list[Line]:
    if not holders:
        return []
    rows = [
        [
            ink(f"  {kind_name(one.kind)}"),
            ink(human(one.bytes)),
            ink(f"{one.count:,} x" if one.count > 1 else ""),
            ink(operation(one.origin)),
            ink(place(one.origin)),
        ]
        for one in holders[:LEFTOVERS]
    ]
    title = "  HELD NOW" if running else "  NEVER FREED"
    columns = [
        Column(title),
        Column("BYTES", right=True),
        Column("", right=True),
        Column("MADE BY"),
        Column(""),
    ]
    lines = Grid(columns, rows).lines()
    others = holders[LEFTOVERS:]
    if others:
        rest = sum(one.bytes for one in others)
        lines += [
            ink(f"  and {human(rest)} from {len(others):,} more places; `ttmem dump` lists them")
        ]
    return lines
