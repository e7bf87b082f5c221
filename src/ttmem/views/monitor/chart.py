"""History as a sparkline, or as a chart with figures and peak."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import sub
from typing import NamedTuple

from ttmem.events import Telemetry
from ttmem.snapshots import MemoryUse
from ttmem.views.figures import AMOUNT, Kind, Units, amount, known, of_limit
from ttmem.views.ink import Line, Span, Style, clip_line, faint, flow, ink, pad
from ttmem.views.meter import is_over, level, percentage
from ttmem.views.monitor.state import Look, Series
from ttmem.views.names import time_of_day

LEVELS, ASCII_LEVELS = "▂▃▄▅▆▇█", ".:-=+*#"
NOTHING, ASCII_NOTHING = "▁", "_"
GAP = " "
OVER = "!"


def sparkline(values: Iterable[int | None], top: int, ascii: bool = False) -> str:
    """One sign for each value: a gap, nothing, some of `top`, or more than that."""
    levels, nothing = (ASCII_LEVELS, ASCII_NOTHING) if ascii else (LEVELS, NOTHING)
    steps = len(levels) - 1
    out = []
    for value in values:
        if value is None:
            out.append(GAP)
        elif value <= 0:
            out.append(nothing)
        elif value > top:
            out.append(OVER)
        else:
            out.append(levels[value * steps // top])
    return "".join(out)


SECOND = 1_000_000_000
PACE = 16  # samples
LONGEST_STEP = 3 * SECOND  # between samples that belong together, if they come every second


def first_needed(times: Sequence[int], end_ns: int, seconds: int) -> int:
    """From this sample on a series has all that its last `seconds` are drawn from: pace, and what held before."""
    oldest = bisect_left(times, end_ns - seconds * SECOND)
    return max(min(oldest - 1, bisect_right(times, end_ns) - PACE), 0)


@dataclass(frozen=True, slots=True)
class TimeColumns:
    """Which samples fall into which column.

    Columns begin at multiples of their length since 1970, so that a chart moves by whole columns
    and keeps its shape.
    """

    times: Sequence[int]
    start_ns: int
    step_ns: int
    end_ns: int  # now, within the last column
    edges: Sequence[int]  # index of the first sample of each column, and one more

    @classmethod
    def of(cls, series: Series, end_ns: int, seconds: int, count: int) -> TimeColumns:
        """The last `seconds` before `end_ns` in `count` columns."""
        times = series.get("time_ns", ())
        step = max(seconds * SECOND // max(count, 1), 1)
        start = (end_ns // step + 1 - count) * step
        stop = bisect_right(times, end_ns)
        first = bisect_left(times, start, 0, stop)
        edges = [bisect_left(times, start + at * step, first, stop) for at in range(count)]
        return cls(times, start, step, end_ns, [*edges, stop])

    @property
    def count(self) -> int:
        return len(self.edges) - 1

    def highest(self, values: Sequence[int]) -> list[int | None]:
        """The highest value of each column; between two samples the earlier one holds."""
        edges = self.edges
        if len(values) != len(self.times):
            return [None] * self.count
        out = [max(values[low:high]) if low < high else None for low, high in pairwise(edges)]
        if None in out and edges[-1]:
            longest = self._longest_step
            for at, value in enumerate(out):
                if value is None and self._between(edges[at], longest):
                    out[at] = values[edges[at] - 1]
        return out

    def column(self, time_ns: int) -> int | None:
        """The column of an instant, if it is in sight."""
        at = (time_ns - self.start_ns) // self.step_ns
        return at if 0 <= at < self.count and time_ns <= self.end_ns else None

    @property
    def _longest_step(self) -> int:
        """Samples further apart than this have a gap between them; the last few tell their pace."""
        stop = self.edges[-1]
        near = self.times[max(stop - PACE, 0) : stop]
        return max(LONGEST_STEP, 5 * min(map(sub, near[1:], near), default=0) // 2)

    def _between(self, after: int, longest: int) -> bool:
        """Whether there is no gap between the sample before `after` and the next one, or now."""
        if after == 0:
            return False
        until = self.times[after] if after < self.edges[-1] else self.end_ns
        return until - self.times[after - 1] <= longest


PEAK, ASCII_PEAK = "◆", "^"
_BRAILLE = 0x2800
_LEFT = (0x00, 0x40, 0x44, 0x46, 0x47)  # so many dots from the bottom
_RIGHT = (0x00, 0x80, 0xA0, 0xB0, 0xB8)
_DOTS = [[chr(_BRAILLE + left + right) for right in _RIGHT] for left in _LEFT]
_DOTS[0][0] = " "
_ASCII = " .#"  # none, lower half, all of a cell


class Raster(NamedTuple):
    """How finely a cell can be filled."""

    across: int
    levels: int

    def sign(self, filled: Sequence[int]) -> str:
        """The cell with so many levels filled in each of its columns."""
        return _ASCII[filled[0]] if self.across == 1 else _DOTS[filled[0]][filled[1]]


def raster(ascii: bool) -> Raster:
    """The finest that the terminal can show."""
    return Raster(1, 2) if ascii else Raster(2, 4)


def chart(
    values: Sequence[int | None],
    rows: int,
    top: int,
    style: Style,
    *,
    limit: int | None = None,
    ascii: bool = False,
    peak_at: int | None = None,
) -> list[Line]:
    """`rows` lines, the highest first; `values` has `raster(ascii).across` of them for each cell.

    What is known shows, be it 0; a gap is empty. What lies above `limit` is in the colour of alarm.
    The highest value has a mark on it; `peak_at`: which one, if there are several.
    """
    grain = raster(ascii)
    heights = [_height(value, rows * grain.levels, top) for value in values]
    peak = _peak(values, heights, rows, grain, peak_at)
    mark = ASCII_PEAK if ascii else PEAK
    out = []
    for row in range(rows - 1, -1, -1):
        base = row * grain.levels
        # What each height fills of this row, once, instead of once for every column.
        fills = [max(0, min(h - base, grain.levels)) for h in range(rows * grain.levels + 1)]
        filled = [fills[height] for height in heights]
        signs = [grain.sign(cell) for cell in zip(*[iter(filled)] * grain.across, strict=True)]
        above = limit is not None and top * row >= limit * rows
        out.append(_line("".join(signs), Style.ALARM if above else style, peak, row, mark))
    return out


def _height(value: int | None, levels: int, top: int) -> int:
    if value is None:
        return 0
    return max(1, min(-(-value * levels // top), levels)) if top else 1


def _peak(
    values: Sequence[int | None],
    heights: Sequence[int],
    rows: int,
    grain: Raster,
    peak_at: int | None,
) -> tuple[int, int] | None:
    """The cell above the highest value, or its own at the upper edge."""
    above_zero = [(value, -at) for at, value in enumerate(values) if value]
    if not above_zero:
        return None
    at = -max(above_zero)[1] if peak_at is None else peak_at
    return at // grain.across, min(-(-heights[at] // grain.levels), rows - 1)


def _line(text: str, style: Style, peak: tuple[int, int] | None, row: int, mark: str) -> Line:
    if peak is None or peak[1] != row:
        return (Span(text, style),)
    at = peak[0]
    spans = (Span(text[:at], style), Span(mark, Style.LABEL), Span(text[at + 1 :], style))
    return tuple(span for span in spans if span.text)


TALL = 5  # lines; from that on, the times stand below
LEAST_CELLS = 4
LEAST_SCALE = 1024
ZOOM = 4  # what never reached a quarter of the capacity has a scale of its own


class Subject(NamedTuple):
    """A kind of memory of a device. `only`: the figures that such a kind has; None: all."""

    kind: Kind
    use: MemoryUse
    only: frozenset[str] | None = None

    def has(self, figure: str) -> bool:
        """Whether the figure applies to it."""
        return self.only is None or figure in self.only


class Past(NamedTuple):
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
        use = subject.use
        at = None if use.peak_time_ns is None else columns.column(use.peak_time_ns)
        if at is not None and use.peak and use.peak >= peak:
            values[at] = use.peak
            return cls(values, use.peak, use.peak_time_ns, at)
        return cls(values, peak, when, whole=use.peak_time_ns is None)


def panel(subject: Subject, series: Series, look: Look, width: int, height: int) -> list[Line]:
    """The chart of a kind of memory: exactly `height` lines of at most `width` columns."""
    frame = _Axes(look, width, height, _label_width(subject, series, look))
    columns = frame.columns(series)
    past = Past.of(subject, series, columns)
    capacity = subject.use.capacity
    top = scale(past.peak, capacity)
    drawn = chart(
        past.values, frame.rows, top, subject.kind.style,
        limit=capacity, ascii=look.ascii, peak_at=past.peak_at,
    )  # fmt: skip
    return frame.lines(
        _title(subject, past, look, width), drawn, look.state.units.text(top), columns
    )


class ChartedSensor(NamedTuple):
    """A sensor of a card. Its samples are whole tenths."""

    name: str  # of the field of Telemetry
    title: str
    unit: str
    style: Style
    top: int  # of the scale, where the card does not report a limit

    def text(self, tenths: int) -> str:
        return f"{tenths / 10:.1f}".removesuffix(".0") + self.unit


SENSORS = (
    ChartedSensor("temperature_c", "TEMP", " °C", Style.WARN, 1000),
    ChartedSensor("power_w", "POWER", " W", Style.RING, 3000),
    ChartedSensor("aiclk_mhz", "AICLK", " MHz", Style.L1_SMALL, 15000),
)


def sensor_panel(
    sensor: ChartedSensor, telemetry: Telemetry, series: Series, look: Look, width: int, height: int
) -> list[Line]:
    """The chart of a sensor; what reaches the limit at which firmware throttles is in the colour of alarm."""
    values, value = series.get("value", ()), getattr(telemetry, sensor.name)
    limit = getattr(telemetry.limits, sensor.name, None)
    most = None if limit is None else round(10 * limit)
    top = max([most or sensor.top, *values])
    frame = _Axes(look, width, height, len(sensor.text(top)))
    columns = frame.columns(series)
    highest = columns.highest(values)
    drawn = chart(highest, frame.rows, top, sensor.style, limit=most, ascii=look.ascii)
    now = known(None if value is None else sensor.text(round(10 * value)))
    of = faint(f" / {sensor.text(most)}") if most is not None else ()
    title = (*ink(f"{sensor.title} ", sensor.style), *now, *of)
    return frame.lines(title, drawn, sensor.text(top), columns)


class _Axes:
    """Where a chart's title, scale, cells and times are."""

    def __init__(self, look: Look, width: int, height: int, label: int) -> None:
        self._look, self._width, self._height = look, width, height
        self._timed = height >= TALL
        self.rows = height - 1 - self._timed
        self._label, self._cells = label, width - label - 1
        if self._cells < LEAST_CELLS:
            self._label, self._cells = -1, max(width, 1)

    def columns(self, series: Series) -> TimeColumns:
        count = self._cells * raster(self._look.ascii).across
        return TimeColumns.of(series, self._look.snapshot.time_ns, self._look.span, count)

    def lines(
        self, title: Line, drawn: Sequence[Line], top: str, columns: TimeColumns
    ) -> list[Line]:
        lines = [title]
        for at, line in enumerate(drawn):
            text = top if at == 0 else "0" if at == self.rows - 1 else ""
            lines.append((*_axis(text, self._label, self._look.ascii), *line))
        if self._timed:
            lines.append(_times(columns, self._look, self._label + 1, self._cells))
        return [clip_line(line, self._width) for line in lines[: self._height]]


def scale(peak: int, capacity: int | None) -> int:
    """What the upper edge stands for: the capacity, or a power of two above what is small or over it."""
    if capacity and (not peak or ZOOM * peak >= capacity >= peak):
        return capacity
    return 1 << max(peak - 1, LEAST_SCALE - 1).bit_length()


def _label_width(subject: Subject, series: Series, look: Look) -> int:
    """The width of the scale's label, the same for any part of the past."""
    units, capacity = look.state.units, subject.use.capacity or 0
    highest = max(*series.get(subject.kind.series, ()), subject.use.peak or 0, LEAST_SCALE)
    space = max(len(units.text(count)) for count in (scale(highest, None), capacity))
    return max(space, AMOUNT) if units is Units.BINARY else space


def _title(subject: Subject, past: Past, look: Look, width: int) -> Line:
    """The figures and the peak; what the scale says anyway goes first if there is no space."""
    units, capacity = look.state.units, subject.use.capacity
    over = is_over(subject.use.held, capacity)
    name = ink(f"{subject.kind.title} ", subject.kind.style)
    held = (*name, *amount(units, subject.use.held, Style.ALARM if over else Style.PLAIN))
    figures = (
        (*name, *of_limit(units, subject.use.held, capacity)) if subject.has("capacity") else held
    )
    share = "over capacity" if over else percentage(subject.use.held, capacity)
    level_of = [ink(share, level(subject.use.held, capacity))] if capacity else []
    peak = _peak_fact(past, look)
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


def _peak_fact(past: Past, look: Look) -> list[Line]:
    if past.peak_time_ns is None:
        return []
    mark = ink(f"{ASCII_PEAK if look.ascii else PEAK} ", Style.LABEL)
    when = faint(
        f" {time_of_day(past.peak_time_ns, look.zone)}" if past.whole else " in this chart"
    )
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
