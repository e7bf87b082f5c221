"""The history of one kind of memory: its figures, a chart with its scale, the highest point marked."""

from __future__ import annotations

from dataclasses import dataclass

from ttmem.views.device_facts import AMOUNT
from ttmem.views.ink import Line, Span, Style, clip_line, faint, flow, ink, pad
from ttmem.views.meter import is_over, level, percentage
from ttmem.views.moments import time_of_day
from ttmem.views.monitor.amounts import amount, of_limit
from ttmem.views.monitor.chart import ASCII_PEAK, PEAK, chart, raster
from ttmem.views.monitor.kinds import Kind
from ttmem.views.monitor.page import Look, Series
from ttmem.views.monitor.samples import TimeColumns
from ttmem.views.monitor.state import Units

TALL = 5  # lines; from that on, the times stand below
LEAST_CELLS = 4
LEAST_SCALE = 1024
ZOOM = 4  # what never reached a quarter of the capacity has a scale of its own


@dataclass(frozen=True, slots=True)
class Subject:
    """What a panel is about, and the highest value that the accounts know of."""

    kind: Kind
    held: int
    capacity: int | None
    peak: int | None = None
    peak_time_ns: int | None = None
    bounded: bool = True  # circular buffers have no capacity of their own


@dataclass(frozen=True, slots=True)
class Past:
    """The values of a subject in the columns of a chart."""

    values: list[int | None]
    peak: int
    peak_time_ns: int | None
    peak_at: int | None = None  # its column; None: the first of the highest
    whole: bool = True  # it is the peak that the accounts know; else only the highest in sight

    @classmethod
    def of(cls, subject: Subject, series: Series, columns: TimeColumns) -> Past:
        """The accounts know better than samples, one a second, how high it was, and when first.

        So there are not two times for one peak, here and in the table. What the accounts do not follow
        (circular buffers alone) has its samples only.
        """
        samples = series.get(subject.kind.series, ())
        values = columns.highest(samples)
        low, high = columns.edges[0], columns.edges[-1]
        seen = samples[low:high] if len(samples) == len(columns.times) else ()
        peak = max(seen, default=0)
        when = columns.times[low + list(seen).index(peak)] if peak else None
        at = None if subject.peak_time_ns is None else columns.column(subject.peak_time_ns)
        if at is not None and subject.peak and subject.peak >= peak:
            values[at] = subject.peak
            return cls(values, subject.peak, subject.peak_time_ns, at)
        return cls(values, peak, when, whole=subject.peak_time_ns is None)


def panel(subject: Subject, series: Series, look: Look, width: int, height: int) -> list[Line]:
    """Exactly `height` lines of at most `width` columns."""
    units, kind = look.state.units, subject.kind
    timed = height >= TALL
    rows = height - 1 - timed
    label = _label_room(subject, series, look)
    cells = width - label - 1
    if cells < LEAST_CELLS:
        label, cells = -1, max(width, 1)
    grain = raster(look.ascii)
    columns = TimeColumns.of(series, look.snapshot.time_ns, look.state.span, cells * grain.across)
    past = Past.of(subject, series, columns)
    top = scale(past.peak, subject.capacity)
    drawn = chart(
        past.values,
        rows,
        top,
        kind.style,
        limit=subject.capacity,
        ascii=look.ascii,
        peak_at=past.peak_at,
    )
    lines = [_title(subject, past, look, width)]
    for at, line in enumerate(drawn):
        text = units.text(top) if at == 0 else "0" if at == rows - 1 else ""
        lines.append((*_axis(text, label, look.ascii), *line))
    if timed:
        lines.append(_times(columns, look, label + 1, cells))
    return [clip_line(line, width) for line in lines[:height]]


def scale(peak: int, capacity: int | None) -> int:
    """What the upper edge stands for: the capacity, or a power of two above what is small or over it."""
    if capacity and (not peak or ZOOM * peak >= capacity >= peak):
        return capacity
    return 1 << max(peak - 1, LEAST_SCALE - 1).bit_length()


def _label_room(subject: Subject, series: Series, look: Look) -> int:
    """Columns for what the upper edge may stand for, whatever of the past is in sight."""
    units, capacity = look.state.units, subject.capacity or 0
    highest = max(*series.get(subject.kind.series, ()), subject.peak or 0, LEAST_SCALE)
    room = max(len(units.text(count)) for count in (scale(highest, None), capacity))
    return max(room, AMOUNT) if units is Units.BINARY else room


def _title(subject: Subject, past: Past, look: Look, width: int) -> Line:
    """The figures and the peak; what the scale says anyway goes first if there is no room."""
    units, capacity = look.state.units, subject.capacity
    over = is_over(subject.held, capacity)
    name = ink(f"{subject.kind.title} ", subject.kind.style)
    held = (*name, *amount(units, subject.held, Style.ALARM if over else Style.PLAIN))
    figures = (*name, *of_limit(units, subject.held, capacity)) if subject.bounded else held
    share = "over capacity" if over else percentage(subject.held, capacity)
    level_of = [ink(share, level(subject.held, capacity))] if capacity else []
    peak = _peak(past, look)
    alarm = level_of if over else []  # the last to go
    for facts in (
        [figures, *level_of, *peak],
        [figures, *alarm, *peak],
        [held, *alarm, *peak],
        [held, *alarm],
    ):
        lines = flow(facts, width)
        if len(lines) == 1:
            return lines[0]
    return held


def _peak(past: Past, look: Look) -> list[Line]:
    if past.peak_time_ns is None:
        return []
    mark = ink(f"{ASCII_PEAK if look.ascii else PEAK} ", Style.LABEL)
    when = faint(f" {time_of_day(past.peak_time_ns, look.zone)}" if past.whole else " in sight")
    return [(*mark, *ink(look.state.units.text(past.peak)), *when)]


def _axis(text: str, label: int, ascii: bool) -> Line:
    if label < 0:
        return ()
    return (*pad(faint(text), label, right=True), Span("|" if ascii else "│", Style.BORDER))


def _times(columns: TimeColumns, look: Look, left: int, cells: int) -> Line:
    first = time_of_day(columns.start_ns, look.zone)
    last = time_of_day(look.snapshot.time_ns, look.zone)
    gap = cells - len(first) - len(last)
    return (Span(" " * left), *faint(first + " " * gap + last if gap > 0 else last.rjust(cells)))
