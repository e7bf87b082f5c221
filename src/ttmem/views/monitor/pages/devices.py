"""Devices on the Overview: two lines each, one line each, or one cell each, whichever fits.

Amounts have a fixed width, so that nothing moves while numbers change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from ttmem.snapshots import Device
from ttmem.text import columns
from ttmem.views.ink import Line, Span, Style, clip_line, faint, ink, line_columns, pad
from ttmem.views.meter import PERCENT
from ttmem.views.monitor.chart import SECOND, TimeColumns, first_needed, sparkline
from ttmem.views.monitor.figures import (
    CB,
    DRAM,
    L1,
    L1_SMALL,
    L1_USED,
    Kind,
    Pair,
    Pairs,
    amount,
    stacked_meter,
)
from ttmem.views.monitor.listing import GAP, GUTTER, ListColumn, fit, footer, row_line
from ttmem.views.monitor.state import Look
from ttmem.views.names import DeviceNames, age, board, logical, model, short_ids, short_pci

LARGEST = "largest free"
WITHOUT_CBS = ("largest free without CBs", "largest w/o CBs")  # L1's allocator ignores CBs
LEAST_TREND, MOST_TREND = 4, 60
LEAST_BAR, SHORT_BAR, MOST_BAR = 4, 6, 40


class Place(NamedTuple):
    """Where a device can be clicked: columns `start` to `stop` of a line (None: to its end)."""

    device: int  # index into the snapshot's devices
    line: int
    start: int = 0
    stop: int | None = None


class DeviceArea(NamedTuple):
    """The drawn devices, `across` of them side by side."""

    lines: list[Line]
    places: Sequence[Place] = ()
    across: int = 1


class Shown(NamedTuple):
    """One device and what it is drawn from."""

    device: Device
    look: Look

    @property
    def dram(self) -> Pair:
        return self.device.memory.dram.held, self.device.memory.dram.capacity

    @property
    def l1(self) -> Pair:
        return self.device.l1_used, self.device.l1_capacity

    def dram_meter(self, room: int) -> Line:
        """Bar and percentage."""
        return self._meter([(DRAM, self.device.memory.dram.held)], self.dram[1], room)

    def l1_meter(self, room: int) -> Line:
        """Bar of three parts, and percentage."""
        memory = self.device.memory
        parts = [(L1, memory.l1.held), (L1_SMALL, memory.l1_small.held), (CB, memory.cb.used)]
        return self._meter(parts, self.l1[1], room)

    def _meter(self, parts: Iterable[tuple[Kind, int]], capacity: int | None, room: int) -> Line:
        if capacity is None:
            return faint("N/A".rjust(room))
        ascii = self.look.ascii
        drawn = tuple((held, kind.bar_sign(ascii), kind.style) for kind, held in parts)
        return stacked_meter(drawn, capacity, room, ascii)

    def dram_trend(self, room: int) -> Line:
        return self._trend(DRAM, self.dram[1], room)

    def l1_trend(self, room: int) -> Line:
        return self._trend(L1_USED, self.l1[1], room)

    def _trend(self, kind: Kind, capacity: int | None, room: int) -> Line:
        series = self.look.history.get(self.device.unique_id, {})
        times, values = series.get("time_ns", ()), series.get(kind.series, ())
        # There is one sample a second: within a second, the trend stays as it is.
        end_ns = self.look.snapshot.time_ns // SECOND * SECOND + SECOND - 1
        first = first_needed(times, end_ns, self.look.span)
        text = _sparkline(
            tuple(times[first:]),
            tuple(values[first:]),
            end_ns,
            self.look.span,
            room,
            capacity,
            self.look.ascii,
        )
        return (Span(text, kind.style),)


@lru_cache(1 << 10)
def _sparkline(
    times: tuple[int, ...],
    values: tuple[int, ...],
    end_ns: int,
    seconds: int,
    room: int,
    capacity: int | None,
    ascii: bool,
) -> str:
    highest = TimeColumns.of({"time_ns": times}, end_ns, seconds, room).highest(values)
    top = max((value for value in highest if value), default=0) if capacity is None else capacity
    return sparkline(highest, top, ascii)


def _pairs(devices: Sequence[Shown]) -> Pairs:
    units = devices[0].look.state.units
    return Pairs.of(units, [pair for one in devices for pair in (one.dram, one.l1)])


def _span(devices: Sequence[Shown]) -> str:
    return f"last {age(devices[0].look.span * SECOND)}"


def _pointed(line: Line, chosen: bool) -> Line:
    """The line with the cursor before it; the bars keep their colours."""
    return (*ink(">" * GUTTER, Style.CURSOR), *line[1:]) if chosen else line


# -- two lines for each device ---------------------------------------------------------------------

NARROW_NAME, NAME_ROOM, WIDE_NAME_ROOM = 9, 14, 24


class _Memory(NamedTuple):
    """The two lines of DRAM or L1: used of capacity, then the largest free block and the trend."""

    title: str
    room: int
    pairs: Pairs
    pair: Callable[[Shown], Pair]
    meter: Callable[[Shown, int], Line]
    trend: Callable[[Shown, int], Line]
    largest: Callable[[Shown], int | None]
    label: str  # of the largest free block; empty if it is known for no device

    def head(self, span: str) -> Line:
        title, last = faint(f"{self.title} used / capacity"), faint(span)
        gap = self.room - line_columns(title) - line_columns(last)
        return (*title, Span(" " * gap), *last) if gap > 0 and self.trend_room else title

    def lines(self, one: Shown) -> list[Line]:
        used, capacity = self.pair(one)
        bar = min(self.room - self.pairs.width - 1, MOST_BAR + 1 + PERCENT)
        meter = () if capacity is None else self.meter(one, bar)
        trend = self.trend(one, self.trend_room) if self.trend_room else ()
        fact = (*faint(f"{self.label} "), *amount(self.pairs.units, self.largest(one)))
        return [
            (*self.pairs.line(used, capacity), Span(" "), *meter),
            (*pad(fact if self.label else (), self.room - self.trend_room), *trend),
        ]

    @property
    def trend_room(self) -> int:
        """Columns; 0 if it does not fit beside the largest block."""
        taken = len(self.label) + 1 + self.pairs.used + 1 if self.label else 0
        rest = self.room - taken
        return min(rest, MOST_TREND) if rest >= LEAST_TREND else 0


def device_blocks(devices: Sequence[Shown], width: int, chosen: int | None) -> DeviceArea | None:
    """Two lines for each device; None if the window is too narrow."""
    pairs = _pairs(devices)
    number = max(2, *(len(logical(one.device)) for one in devices))
    name = NARROW_NAME if width < 100 else NAME_ROOM if width < 150 else WIDE_NAME_ROOM
    both = width - GUTTER - number - name - 3 * GAP
    if both // 2 < pairs.width + 1 + LEAST_BAR + 1 + PERCENT:
        return None
    dram, l1 = _memories(devices, pairs, both // 2)
    rooms = (number, name, dram.room, l1.room)
    heads = (faint("ID"), faint("DEVICE"), dram.head(_span(devices)), l1.head(_span(devices)))
    lines = [_beside(heads, rooms)]
    ids = short_ids((one.device.unique_id for one in devices), name)
    slots = Counter(one.device.pci for one in devices)  # chips of one board share theirs
    for at, one in enumerate(devices):
        first, second = _names(
            one.device, ids[one.device.unique_id], name, slots[one.device.pci] == 1
        )
        top, low = zip(dram.lines(one), l1.lines(one), strict=True)
        numbered = pad(ink(logical(one.device)), number, right=True)
        lines += [
            _pointed(_beside((numbered, first, *top), rooms), at == chosen),
            _beside(((), second, *low), rooms),
        ]
    places = [Place(at // 2, at + 1) for at in range(2 * len(devices))]
    return DeviceArea([clip_line(line, width) for line in lines], places)


def _memories(devices: Sequence[Shown], pairs: Pairs, room: int) -> tuple[_Memory, _Memory]:
    memories = [one.device.memory for one in devices]
    dram = LARGEST if any(one.dram.largest_free is not None for one in memories) else ""
    l1 = LARGEST if any(one.l1.largest_free is not None for one in memories) else ""
    if l1 and any(one.cb.used for one in memories):
        least = 1 + pairs.used + 1 + LEAST_TREND
        l1 = next((one for one in WITHOUT_CBS if len(one) + least <= room), WITHOUT_CBS[-1])
    return (
        _Memory(
            "DRAM",
            room,
            pairs,
            lambda one: one.dram,
            Shown.dram_meter,
            Shown.dram_trend,
            lambda one: one.device.memory.dram.largest_free,
            dram,
        ),
        _Memory(
            "L1",
            room,
            pairs,
            lambda one: one.l1,
            Shown.l1_meter,
            Shown.l1_trend,
            lambda one: one.device.memory.l1.largest_free,
            l1,
        ),
    )


def _names(device: Device, short: str, room: int, alone: bool) -> tuple[Line, Line]:
    """Board and PCI address above the unique id; a narrow window has only one of these two.

    `alone`: no other device has the same PCI address.
    """
    pci = short_pci(device)
    if room >= WIDE_NAME_ROOM:
        return (*ink(f"{model(device)} "), *faint(pci or "")), faint(short)
    if room >= NAME_ROOM:
        return (*ink(board(device)), *faint(f" {pci or ''}")), faint(short)
    return ink(board(device)), faint(pci if pci and alone else short)


def _beside(cells: Sequence[Line], rooms: Sequence[int]) -> Line:
    return row_line([(cell, room, False) for cell, room in zip(cells, rooms, strict=True)], 1 << 30)


# -- one line for each device ----------------------------------------------------------------------

ID_ROOM = 13


def device_lines(devices: Sequence[Shown], width: int, chosen: int | None) -> DeviceArea | None:
    """A line for each device under a line of titles; None if the window is too narrow."""
    for bar in (SHORT_BAR + 1 + PERCENT, PERCENT):
        table = _columns(devices, bar)
        fitted = fit(table, devices, width - GUTTER)
        if sum(one.width + GAP for one in fitted) - GAP <= width - GUTTER:
            heads = [one.cell(faint(table[one.index].title)) for one in fitted]
            lines = [row_line(heads, width)]
            for at in range(len(devices)):
                cells = [one.cell(one.lines[at]) for one in fitted]
                lines.append(_pointed(row_line(cells, width), at == chosen))
            return DeviceArea(lines, [Place(at, at + 1) for at in range(len(devices))])
    return None


def _columns(devices: Sequence[Shown], bar: int) -> list[ListColumn[Shown]]:
    ids = short_ids((one.device.unique_id for one in devices), ID_ROOM)
    pairs, units = _pairs(devices), devices[0].look.state.units
    aside = any(one.device.memory.cb.used for one in devices)

    def memory(
        name: str, pair: Callable[[Shown], Pair], meter: Callable[[Shown, int], Line]
    ) -> ListColumn[Shown]:
        def draw(one: Shown, room: int) -> Line:
            rest = room - pairs.width - 1
            used, capacity = pair(one)
            drawn = () if capacity is None else meter(one, rest)
            return (*pairs.line(used, capacity), Span(" "), *drawn)

        least = pairs.width + 1 + bar
        most = pairs.width + 1 + MOST_BAR + 1 + PERCENT
        return ListColumn(
            f"{name} used / capacity", width=least, most=most, grow=2, draw=draw, cell=_no_text
        )

    def trend(name: str, rank: int, draw: Callable[[Shown, int], Line]) -> ListColumn[Shown]:
        title = f"{name} {_span(devices)}"
        return ListColumn(
            title,
            width=2 * LEAST_TREND,
            most=MOST_TREND,
            grow=1,
            rank=rank,
            draw=draw,
            cell=_no_text,
        )

    def fact(
        title: str, rank: int, cell: Callable[[Shown], Line], right: bool = False
    ) -> ListColumn[Shown]:
        width = max(line_columns(cell(one)) for one in devices)
        return ListColumn(title, cell, right=right, width=width, rank=rank)

    return [
        fact("ID", 0, lambda one: ink(logical(one.device)), right=True),
        fact("BOARD", 1, lambda one: ink(board(one.device))),
        fact("PCI", 4, lambda one: faint(short_pci(one.device) or "N/A")),
        fact("UNIQUE ID", 7, lambda one: faint(ids[one.device.unique_id])),
        memory("DRAM", lambda one: one.dram, Shown.dram_meter),
        fact(
            "LARGEST FREE", 5, lambda one: amount(units, one.device.memory.dram.largest_free), True
        ),
        memory("L1", lambda one: one.l1, Shown.l1_meter),
        fact(
            "LARGEST W/O CBS" if aside else "LARGEST FREE",
            6,
            lambda one: amount(units, one.device.memory.l1.largest_free),
            True,
        ),
        trend("DRAM", 3, Shown.dram_trend),
        trend("L1", 2, Shown.l1_trend),
    ]


def _no_text(one: Shown) -> None:
    return None


# -- one cell for each device ----------------------------------------------------------------------

BARS = (24, 18, 12, 8, 6, 4, 0)  # cells; the longest with which all devices fit
TOO_WIDE = 1 << 30  # rows
TITLE = "each device: its id, DRAM (D) and L1 (L) in percent of what can be allocated"


def device_cells(
    devices: Sequence[Shown], width: int, height: int, chosen: int | None
) -> DeviceArea:
    """At most `height` lines; if not all devices fit, those around the chosen one."""
    names = DeviceNames(one.device for one in devices)
    titles = [names.some([one.device.unique_id]) for one in devices]
    name = max(map(columns, titles))
    titled = height > 3
    room = height - titled
    bar = next((bar for bar in BARS if _rows(devices, width, name, bar) <= room), 0)
    across = _across(width, name, bar)
    cells = [
        _cell(one, title, name, bar, at == chosen)
        for at, (one, title) in enumerate(zip(devices, titles, strict=True))
    ]
    rows = [cells[at : at + across] for at in range(0, len(cells), across)]
    hides = len(rows) > room
    shown = max(room - hides, 1)
    first = max(0, min((chosen or 0) // across - shown // 2, len(rows) - shown))
    lines = [clip_line(faint(" " * GUTTER + TITLE), width)] if titled else []
    places = []
    for row in range(first, min(first + shown, len(rows))):
        for column in range(len(rows[row])):
            start = column * (_width(name, bar) + GAP)
            places.append(
                Place(row * across + column, len(lines), start, start + _width(name, bar))
            )
        lines.append(clip_line(_joined(rows[row], _width(name, bar)), width))
    if hides and len(lines) < height:
        below = len(devices) - (first + shown) * across
        lines.append(clip_line(footer(first * across, below, None, devices[0].look.ascii), width))
    return DeviceArea(lines, places, across)


def _cell(one: Shown, title: str, name: int, bar: int, chosen: bool) -> Line:
    room = bar + 1 + PERCENT if bar else PERCENT
    style = Style.CURSOR if chosen else Style.LABEL
    return (
        *ink(">" if chosen else " ", Style.CURSOR if chosen else Style.PLAIN),
        *pad(ink(title, style), name, right=True),
        *faint(" D "),
        *one.dram_meter(room),
        *faint(" L "),
        *one.l1_meter(room),
    )


def _joined(cells: Sequence[Line], width: int) -> Line:
    return tuple(span for cell in cells for span in (*pad(cell, width), Span(" " * GAP)))


def _width(name: int, bar: int) -> int:
    return GUTTER + name + 2 * (len(" D ") + (bar + 1 + PERCENT if bar else PERCENT))


def _across(width: int, name: int, bar: int) -> int:
    return max((width + GAP) // (_width(name, bar) + GAP), 1)


def _rows(devices: Sequence[Shown], width: int, name: int, bar: int) -> int:
    if bar and _width(name, bar) > width:
        return TOO_WIDE
    return -(-len(devices) // _across(width, name, bar))
