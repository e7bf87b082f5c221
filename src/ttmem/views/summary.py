"""The summary of `ttmem run`: peaks and what caused them, what was never freed, what was lost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ttmem.analysis.composition import Holder, grouped
from ttmem.analysis.failures import SiteTotal, on_all_chips
from ttmem.events import MemoryKind
from ttmem.probe.layout import Counted
from ttmem.probe.report import (
    DeviceReport,
    HighWater,
    Origin,
    ProcessReport,
    RegionPeak,
    Setting,
    peaks,
)
from ttmem.sizes import human, several
from ttmem.text import clean
from ttmem.views.analysis.call_sites import callers, made_by
from ttmem.views.analysis.failures import kind_name
from ttmem.views.ink import Line, Style, faint, flow, indent, ink, paint, paragraph
from ttmem.views.names import numbers, pids_text
from ttmem.views.table import GAP, Column, Row, table_of

NOTHING_SEEN = "no process of this command opened a device, so there is nothing to report"
NEVER_USED = "never used"
PROCESSES = 8  # in full; a test run may start hundreds
LEFTOVERS = 5
AT_PEAK = 3  # holders under each peak
CALLERS_AT = 6  # columns from the left
LEAST_WIDTH = 16  # 'attention.py:123'
DEMANDS = {Counted.CB_DEMAND, Counted.DATAFLOW_DEMAND}
DEMAND = (
    "demand: the sum over all cached programs. They share addresses, so they occupy less; the row L1 does not "
    "include it"
)
_BESIDE_KINDS = {
    Counted.CB_DEMAND: "CB demand",
    Counted.DATAFLOW_DEMAND: "dataflow demand",
    Counted.KERNEL_BINARIES: "kernel binaries",
}


@dataclass(frozen=True, slots=True)
class Unwatched:
    """Processes that could not create a region; unknown if the folder is not writable."""

    pids: tuple[int, ...]
    folder: str
    writable: bool
    space: tuple[int, int] | None  # free, and all of it
    clean: str  # the command that frees space
    taken: Sequence[str]  # files of other users that have the names of these regions


PeakOf = tuple[int, int, str]  # pid, its number of the device, kind of memory


def render_summary(
    reports: Sequence[ProcessReport],
    unwatched: Unwatched | None = None,
    *,
    held: Mapping[PeakOf, Sequence[Holder]] | None = None,
    width: int,
    color: bool,
) -> str:
    """One block for each process that opened a device."""
    seen = [report for report in reports if report.devices]
    unseen = [] if unwatched is None else _unwatched(unwatched, width)
    if not seen:
        return paint(unseen or [ink(f"ttmem: {NOTHING_SEEN}")], width, color)
    lines = [line for report in seen[:PROCESSES] for line in _process(report, held or {}, width)]
    if len(seen) > PROCESSES:
        more = several(len(seen) - PROCESSES, "more process", "more processes")
        lines += [ink(f"ttmem: {more}; `ttmem dump` has them")]
    return paint([*lines, *unseen], width, color)


def _unwatched(unwatched: Unwatched, width: int) -> list[Line]:
    folder = unwatched.folder
    who = pids_text(unwatched.pids, PROCESSES)
    if not unwatched.writable:
        text = f"nothing could be watched: {folder} is not writable; choose another directory with --shm"
    elif unwatched.taken:
        text = (
            f"{who} could not be watched: {clean(unwatched.taken[0])} belongs to another user and has the name"
            " that a region needs; tell root, or choose a directory of your own with --shm"
        )
    else:
        left = ""
        if unwatched.space is not None:
            free, size = unwatched.space
            left = f" ({human(free)} of {human(size)} are free now)"
        text = (
            f"{who} could not be watched: no space for a region in {folder}{left}; `{unwatched.clean}` removes those"
            " of dead processes, and --shm chooses another directory"
        )
    return paragraph(f"ttmem: {text}", width, Style.WARN)


def _process(
    report: ProcessReport, held: Mapping[PeakOf, Sequence[Holder]], width: int
) -> list[Line]:
    used = [device for device in report.devices if _was_used(device)]
    head = f"ttmem: pid {report.pid}{_how_it_is(report)}: {_counts(report, used)}"
    mine = {key[1:]: holders for key, holders in held.items() if key[0] == report.pid}
    lines = [ink(head, Style.TITLE), *_peak_rows(peaks(used), mine, width)]
    title = "HELD NOW" if report.running else "NEVER FREED"
    on_all = f", sum of {len(used)} devices" if len(used) > 1 else ""
    lines += _leftover_rows(on_all_chips(report.never_freed), f"{title}{on_all}", width)
    for loss in report.losses:
        lines += indent(paragraph(f"lost: {loss}", width - 2, Style.WARN), 2)
    return lines


def _how_it_is(report: ProcessReport) -> str:
    if report.running:
        return " (still running)"
    return "" if report.in_order else " (killed, or ended by _exit)"


def _was_used(device: DeviceReport) -> bool:
    """Whether it allocated, or tried to: the runtime opens chips that a program never uses."""
    return bool(device.refusals) or any(mark.bytes for mark in device.peaks)


def _counts(report: ProcessReport, used: Sequence[DeviceReport]) -> str:
    opened = tuple(one.declaration.logical_id for one in report.devices)
    some = numbers(tuple(one.declaration.logical_id for one in used))
    devices = some or f"{numbers(opened)} opened"
    if not report.failures:
        return devices
    return f"{devices}, {several(report.failures, 'allocation')} failed"


def _peak_rows(
    found: Sequence[RegionPeak], held: Mapping[tuple[int, str], Sequence[Holder]], width: int
) -> list[Line]:
    if not found:
        return [ink("  nothing was allocated")]
    several = len({peak.chips for peak in found}) > 1

    def what(peak: RegionPeak) -> str:
        return f"  {numbers(peak.chips) + ' ' if several else ''}{_kind(peak.high_water)}"

    def size(peak: RegionPeak) -> str:
        return human(peak.size) if isinstance(peak.high_water.kind, MemoryKind) else ""

    def origin(peak: RegionPeak) -> Origin | None:
        return peak.high_water.origin if peak.high_water.bytes else None

    columns = [
        Column("  PEAK OF", what),
        Column("BYTES", lambda peak: human(peak.high_water.bytes), right=True),
        Column("OF", size, right=True),
    ]
    holders = [_at_peak(peak, held, width) for peak in found]
    demand = []  # why it is not part of L1 used
    if any(peak.high_water.kind in DEMANDS for peak in found):
        demand = indent(paragraph(DEMAND, width - 2, Style.FAINT), 2)
    return [
        *_with_origins(columns, found, origin, width, holders),
        *demand,
        *_setting_lines(found, several, width),
    ]


def _at_peak(
    peak: RegionPeak, held: Mapping[tuple[int, str], Sequence[Holder]], width: int
) -> list[Line]:
    """The largest holders at the peak, unless the line that reached it held everything."""
    mark = peak.high_water
    if not isinstance(mark.kind, MemoryKind) or not mark.bytes:
        return []
    holders = held.get((peak.chips[0], kind_name(mark.kind)))
    if holders is None:
        return []
    if sum(one.bytes for one in holders) != mark.bytes:
        return [faint("held by  N/A: events were lost, so who held it then is not known")]
    found = grouped(holders, "op", "stack", "phase")
    first, reached = found[0], mark.origin
    its_own = (first.op, first.site, first.phase) == (reached.op, reached.site, reached.phase)
    if len(found) == 1 and its_own:
        return []
    lines = [faint(_holder_line(one, width)) for one in found[:AT_PEAK]]
    if rest := found[AT_PEAK:]:
        bytes_ = human(sum(one.bytes for one in rest))
        lines.append(faint(f"{bytes_:>9}  by {several(len(rest), 'other')}"))
    return indent(lines, len("held by  "), faint("held by"))


def _holder_line(one: Holder, width: int) -> str:
    times = f"{one.number:,} x " if one.number > 1 else ""
    space = max(LEAST_WIDTH, width - CALLERS_AT - 9 - 22)
    who = made_by(Origin(one.op, one.site, one.phase), space)
    return f"{human(one.bytes):>9}  {times:>6} {who}"


def _with_origins(
    columns: Sequence[Column[Row]],
    rows: Sequence[Row],
    origin: Callable[[Row], Origin | None],
    width: int,
    below: Sequence[list[Line]] = (),
) -> list[Line]:
    """Rows that end with op and line, in the width that is left; None: never used. `below`: lines under each."""
    space = max(width - table_of(columns, rows).width - GAP, LEAST_WIDTH)

    def by(row: Row) -> Line:
        return ink(made_by(one, space)) if (one := origin(row)) else faint(NEVER_USED)

    head, *lines = table_of([*columns, Column("ALLOCATED BY", by)], rows).lines()
    out = [head]
    for row, line, more in zip(rows, lines, below or [[]] * len(rows), strict=True):
        one = origin(row)
        stack = map(faint, callers(one, width - CALLERS_AT)) if one else ()
        out += [line, *indent([*stack, *more], CALLERS_AT)]
    return out


def _setting_lines(found: Sequence[RegionPeak], several: bool, width: int) -> list[Line]:
    """How much of the regions whose size is an argument of `open_device` was needed."""
    facts = [
        ink(f"{_argument(peak.setting)}: {_need(peak.setting)}{on}")
        for peak in found
        if peak.setting
        for on in [f" on {numbers(peak.chips)}" if several else ""]
    ]
    return indent(flow(facts, width - 2, "   "), 2)


def _argument(setting: Setting) -> str:
    """A size that was rounded up to banks; the argument itself is not known."""
    return f"{setting.name}={setting.value}{' (rounded to banks)' if setting.rounded else ''}"


def _need(setting: Setting) -> str:
    if setting.at_least:
        enough = setting.needed > setting.value
        least = f"at least {setting.needed}" if enough else f"more than {setting.value}"
        return f"{least} were needed"
    return f"{setting.needed} were needed" if setting.needed else NEVER_USED


def _kind(mark: HighWater) -> str:
    return _BESIDE_KINDS[mark.kind] if isinstance(mark.kind, Counted) else kind_name(mark.kind)


def _leftover_rows(holders: Sequence[SiteTotal], title: str, width: int) -> list[Line]:
    if not holders:
        return []
    columns: list[Column[SiteTotal]] = [
        Column(f"  {title}", lambda one: f"  {kind_name(one.kind)}"),
        Column("BYTES", lambda one: human(one.bytes), right=True),
        Column("", lambda one: f"{one.count:,} x" if one.count > 1 else "", right=True),
    ]
    lines = _with_origins(columns, holders[:LEFTOVERS], lambda one: one.origin, width)
    others = holders[LEFTOVERS:]
    if others:
        rest = human(sum(one.bytes for one in others))
        places = several(len(others), "more place")
        lines += [ink(f"  and {rest} from {places}; `ttmem dump` lists them")]
    return lines
