"""Devices as blocks of lines, one line each, or one cell each: in `ttmem ps` and on the monitor's Overview.

Amounts have a fixed width, so that nothing moves while numbers change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import NamedTuple

from ttmem.snapshots import CircularBuffers, Device
from ttmem.text import columns
from ttmem.views.figures import (
    AMOUNT,
    CB,
    DRAM,
    L1,
    L1_SMALL,
    L1_USED,
    Kind,
    Pair,
    Pairs,
    Units,
    amount,
    fact,
    stacked_meter,
)
from ttmem.views.ink import (
    EMPTY,
    Line,
    Span,
    Style,
    clip_line,
    faint,
    flow,
    indent,
    ink,
    line_columns,
    pad,
)
from ttmem.views.meter import PERCENT, level, percentage
from ttmem.views.names import DeviceNames, board, logical, model, short_ids, short_pci
from ttmem.views.table import GAP, GUTTER, ListColumn, fit_rows, footer, row_line, row_lines

LARGEST = "largest free"
WITHOUT_CBS = ("largest free without CBs", "largest w/o CBs")  # L1's allocator ignores CBs
LEAST_TREND, MOST_TREND = 4, 60
LEAST_BAR, SHORT_BAR, MOST_BAR = 4, 6, 40
USED = "used / capacity"

Trend = Callable[[Device, Kind, int], Line]  # a sparkline of that many columns


class ClickArea(NamedTuple):
    """Where a device can be clicked: columns `start` to `stop` of a line (None: to its end)."""

    device: int  # index into the devices
    line: int
    start: int = 0
    stop: int | None = None


class DeviceArea(NamedTuple):
    """The drawn devices, `across` of them side by side."""

    lines: list[Line]
    places: Sequence[ClickArea] = ()
    across: int = 1


class Sheet(NamedTuple):
    """The devices to draw, and how."""

    devices: Sequence[Device]
    width: int
    units: Units = Units.BINARY
    ascii: bool = False
    chosen: int | None = None  # the device under the cursor
    trend: Trend | None = (
        None  # with it, largest free blocks and trends are shown; without, details
    )
    trend_title: str = ""

    @property
    def pairs(self) -> Pairs:
        figures = [of(one) for one in self.devices for of in (dram_use, l1_use)]
        return Pairs.of(self.units, figures)

    @property
    def number(self) -> int:
        return max(len("ID"), *(len(logical(one)) for one in self.devices))

    def meter(self, device: Device, kind: Kind, space: int) -> Line:
        """Bar, of three parts for L1, and percentage."""
        memory = device.memory
        if kind is DRAM:
            parts, capacity = [(DRAM, memory.dram.held)], memory.dram.capacity
        else:
            held = ((L1, memory.l1.held), (L1_SMALL, memory.l1_small.held), (CB, memory.cb.used))
            parts, capacity = list(held), device.l1_capacity
        if capacity is None:
            return EMPTY
        drawn = tuple((held, part.bar_sign(self.ascii), part.style) for part, held in parts)
        return stacked_meter(drawn, capacity, space, self.ascii)

    def pointed(self, line: Line, at: int) -> Line:
        """The line with the cursor before it; the bars keep their colours."""
        return (*ink(">" * GUTTER, Style.CURSOR), *line[1:]) if at == self.chosen else line


def dram_use(device: Device) -> Pair:
    return device.memory.dram.held, device.memory.dram.capacity


def l1_use(device: Device) -> Pair:
    return device.l1_used, device.l1_capacity


# -- details ---------------------------------------------------------------------------------------


def cb_measure(cb: CircularBuffers) -> str:
    """Which number stands in the L1 sum: 'cached', 'resident', 'demand', 'mixed' over processes, or ''."""
    if not cb.used:
        return ""
    if cb.cached is not None:
        return "cached"
    if cb.demand is None and cb.used == cb.resident:
        return "resident"
    return "demand" if cb.used == cb.demand else "mixed"


def _requested(device: Device, units: Units) -> str | None:
    """What was asked for, where lock-step allocation took more."""
    dram = device.memory.dram
    return units.text(dram.requested) if dram.requested != dram.held else None


def _trace(device: Device, units: Units) -> str | None:
    """'22.5 MiB / 64.0 MiB'; None where there is neither a trace nor a region for it."""
    trace = device.memory.trace
    if not trace.held and not trace.capacity:
        return None
    limit = "" if trace.capacity is None else f" / {units.text(trace.capacity)}"
    return units.text(trace.held) + limit


def _circular(device: Device, units: Units) -> str:
    cb = device.memory.cb
    return f"{units.text(cb.used)} {cb_measure(cb)}".rstrip()


def _dram_details(device: Device, units: Units) -> list[Line]:
    """'requested 4.4 GiB', 'TRACE 22.5 MiB / 64.0 MiB'."""
    texts = (("requested", _requested(device, units)), ("TRACE", _trace(device, units)))
    return [fact(label, text) for label, text in texts if text is not None]


def _l1_details(device: Device, units: Units) -> list[Line]:
    """'= L1 2.2 MiB', '+ L1_SMALL 0 B', '+ CB 29.8 MiB cached'."""
    memory = device.memory
    return [
        fact("= L1", units.text(memory.l1.held)),
        fact("+ L1_SMALL", units.text(memory.l1_small.held)),
        fact("+ CB", _circular(device, units)),
    ]


# -- a block of lines for each device --------------------------------------------------------------

NARROW_NAME, NAME_WIDTH, WIDE_NAME_WIDTH = 9, 14, 24


class _Memory(NamedTuple):
    """The lines of DRAM or L1: used of capacity; below, the largest free block and the trend, or details."""

    kind: Kind
    sheet: Sheet
    space: int
    pairs: Pairs
    use: Callable[[Device], Pair]
    details: Callable[[Device, Units], list[Line]]
    gap: str  # between details
    label: str  # of the largest free block; empty if it is known for no device

    @property
    def head(self) -> Line:
        title, last = faint(f"{self.kind.title} {USED}"), faint(self.sheet.trend_title)
        gap = self.space - line_columns(title) - line_columns(last)
        return (*title, *ink(" " * gap), *last) if gap > 0 and self._trend_width else title

    def lines(self, device: Device) -> list[Line]:
        bar = min(self.space - self.pairs.width - 1, MOST_BAR + 1 + PERCENT)
        meter = self.sheet.meter(device, self.kind, bar)
        return [(*self.pairs.line(*self.use(device)), Span(" "), *meter), *self._below(device)]

    def _below(self, device: Device) -> list[Line]:
        units, trend, space = self.pairs.units, self.sheet.trend, self._trend_width
        if trend is None:
            return flow(self.details(device, units), self.space, self.gap)
        memory = device.memory.dram if self.kind is DRAM else device.memory.l1
        largest = (*faint(f"{self.label} "), *amount(units, memory.largest_free))
        drawn = trend(device, DRAM if self.kind is DRAM else L1_USED, space) if space else EMPTY
        return [(*pad(largest if self.label else EMPTY, self.space - space), *drawn)]

    @property
    def _trend_width(self) -> int:
        """Columns; 0 if it does not fit beside the largest block."""
        taken = len(self.label) + 1 + self.pairs.used + 1 if self.label else 0
        rest = self.space - taken
        return min(rest, MOST_TREND) if self.sheet.trend and rest >= LEAST_TREND else 0


def device_blocks(sheet: Sheet) -> DeviceArea | None:
    """Two lines for each device, or more with details; None if the window is too narrow."""
    width, pairs = sheet.width, sheet.pairs
    name = NARROW_NAME if width < 100 else NAME_WIDTH if width < 150 else WIDE_NAME_WIDTH
    both = width - GUTTER - sheet.number - name - 3 * GAP
    if both // 2 < pairs.width + 1 + LEAST_BAR + 1 + PERCENT:
        return None
    dram, l1 = _memories(sheet, pairs, both // 2)
    widths = (sheet.number, name, dram.space, l1.space)
    lines = [_beside((faint("ID"), faint("DEVICE"), dram.head, l1.head), widths)]
    ids = short_ids((one.unique_id for one in sheet.devices), name)
    slots = Counter(one.pci for one in sheet.devices)  # chips of one board share theirs
    places: list[ClickArea] = []
    for at, one in enumerate(sheet.devices):
        names = _names(one, ids[one.unique_id], name, slots[one.pci] == 1)
        number = [pad(ink(logical(one)), sheet.number, right=True)]
        blocks = (number, names[: 2 if sheet.trend else None], dram.lines(one), l1.lines(one))
        rows = [_beside(cells, widths) for cells in zip_longest(*blocks, fillvalue=EMPTY)]
        rows[0] = sheet.pointed(rows[0], at)
        places += [ClickArea(at, len(lines) + row) for row in range(len(rows))]
        lines += rows
    return DeviceArea([clip_line(line, width) for line in lines], places)


def _memories(sheet: Sheet, pairs: Pairs, space: int) -> tuple[_Memory, _Memory]:
    memories = [one.memory for one in sheet.devices]
    dram = LARGEST if any(one.dram.largest_free is not None for one in memories) else ""
    l1 = LARGEST if any(one.l1.largest_free is not None for one in memories) else ""
    if l1 and any(one.cb.used for one in memories):
        least = 1 + pairs.used + 1 + LEAST_TREND
        l1 = next((one for one in WITHOUT_CBS if len(one) + least <= space), WITHOUT_CBS[-1])
    return (
        _Memory(DRAM, sheet, space, pairs, dram_use, _dram_details, "  ", dram),
        _Memory(L1, sheet, space, pairs, l1_use, _l1_details, " ", l1),
    )


def _names(device: Device, short: str, space: int, alone: bool) -> list[Line]:
    """Board and PCI address above the unique id; in a narrow window a line each, the most telling first.

    `alone`: no other device has the same PCI address.
    """
    pci = short_pci(device)
    if space >= WIDE_NAME_WIDTH:
        return [(*ink(f"{model(device)} "), *faint(pci or "")), faint(short)]
    if space >= NAME_WIDTH:
        return [(*ink(board(device)), *faint(f" {pci or ''}")), faint(short)]
    both = [pci, short] if pci and alone else [short, pci]
    return [ink(board(device)), *(faint(name) for name in both if name)]


def _beside(cells: Sequence[Line], widths: Sequence[int]) -> Line:
    return row_line(
        [(cell, space, False) for cell, space in zip(cells, widths, strict=True)], 1 << 30
    )


def device_sentences(sheet: Sheet) -> list[Line]:
    """The same for narrow windows: sentences instead of columns."""
    lines: list[Line] = []
    for device in sheet.devices:
        by = len(logical(device)) + 2
        space = sheet.width - by
        names = [ink(model(device)), faint(device.unique_id), faint(short_pci(device) or "")]
        dram = [_sentence("DRAM", dram_use(device), sheet.units)]
        facts = [
            *dram,
            *_dram_details(device, sheet.units),
            _sentence("L1", l1_use(device), sheet.units),
        ]
        block = [
            *flow([name for name in names if line_columns(name)], space),
            *flow(facts, space),
            *flow(_l1_details(device, sheet.units), space, " "),
        ]
        lines += indent(block, by, ink(logical(device)))
    return lines


def _sentence(label: str, use: Pair, units: Units) -> Line:
    used, capacity = use[0] or 0, use[1]
    text = percentage(used, capacity)
    share = ink("over capacity" if text == "over" else text, level(used, capacity))
    return (*faint(f"{label} used "), *Pairs(units).line(*use), Span(" "), *share)


# -- one line for each device ----------------------------------------------------------------------

ID_WIDTH, WIDE_ID_WIDTH = 13, 24
BAR = SHORT_BAR + 1 + PERCENT  # columns with its percentage
MEASURE = len(" resident")  # of circular buffers


def device_lines(sheet: Sheet, whole: bool = False) -> DeviceArea | None:
    """A line for each device under a line of titles; None if the window is too narrow.

    `whole`: nothing may be left out for want of space. Else `ps` gives up its bars before unique ids.
    """
    space = sheet.width - GUTTER
    named = (BAR, ID_WIDTH, 0), (PERCENT, ID_WIDTH, 0)
    shorter = (BAR, ID_WIDTH, 7), (PERCENT, ID_WIDTH, 7)
    tries = [(BAR, WIDE_ID_WIDTH, 0)] if whole else shorter if sheet.trend else [*named, *shorter]
    for bar, id_width, id_rank in tries:
        table = _columns(sheet, bar, id_width, id_rank)
        fitted = fit_rows(table, sheet.devices, space)
        too_wide = sum(one.width + GAP for one in fitted) - GAP > space
        if too_wide or (whole and len(fitted) < len(table)):
            continue
        title, *rows = row_lines(table, fitted, sheet.width)
        lines = [title, *(sheet.pointed(row, at) for at, row in enumerate(rows))]
        return DeviceArea(lines, [ClickArea(at, at + 1) for at in range(len(rows))])
    return None


def _columns(sheet: Sheet, bar: int, id_width: int, id_rank: int) -> list[ListColumn[Device]]:
    ids = short_ids((one.unique_id for one in sheet.devices), id_width)
    dram, l1 = _trend_columns(sheet) if sheet.trend else _detail_columns(sheet)
    return [
        _text(sheet, "ID", 0, lambda one: ink(logical(one)), right=True),
        _text(sheet, "BOARD", 1, lambda one: ink(board(one))),
        _text(sheet, "PCI", 4, lambda one: faint(short_pci(one) or "N/A")),
        _text(sheet, "UNIQUE ID", id_rank, lambda one: faint(ids[one.unique_id])),
        _use_column(sheet, DRAM, dram_use, bar),
        *dram,
        _use_column(sheet, L1, l1_use, bar),
        *l1,
    ]


def _text(
    sheet: Sheet,
    title: str,
    rank: int,
    cell: Callable[[Device], Line],
    right: bool = False,
    least: int = 0,
) -> ListColumn[Device]:
    width = max(least, *(line_columns(cell(one)) for one in sheet.devices))
    return ListColumn(title, cell, right=right, width=width, rank=rank)


def _use_column(
    sheet: Sheet, kind: Kind, use: Callable[[Device], Pair], bar: int
) -> ListColumn[Device]:
    pairs = sheet.pairs

    def draw(one: Device, space: int) -> Line:
        meter = sheet.meter(one, kind, space - pairs.width - 1)
        return (*pairs.line(*use(one)), Span(" "), *meter)

    least, most = pairs.width + 1 + bar, pairs.width + 1 + MOST_BAR + 1 + PERCENT
    title = f"{kind.title} {USED}"
    return ListColumn(title, _no_text, width=least, most=most, grow=2, draw=draw)


Columns = list[ListColumn[Device]]


def _detail_columns(sheet: Sheet) -> tuple[Columns, Columns]:
    """Those beside DRAM that some device has, and the parts of L1."""
    units = sheet.units

    def column(title: str, get: Callable[[Device], str], more: int = 0) -> ListColumn[Device]:
        return _text(sheet, title, 8, lambda one: ink(get(one)), right=True, least=AMOUNT + more)

    requested = column("REQUESTED", lambda one: _requested(one, units) or "")
    trace = column("TRACE", lambda one: _trace(one, units) or "", len(" / ") + AMOUNT)
    dram = [
        *([requested] if any(_requested(one, units) for one in sheet.devices) else []),
        *([trace] if any(_trace(one, units) for one in sheet.devices) else []),
    ]
    l1 = [
        column("L1", lambda one: units.text(one.memory.l1.held)),
        column("L1_SMALL", lambda one: units.text(one.memory.l1_small.held)),
        column("CB" + " " * MEASURE, _measured(units), MEASURE),
    ]
    return dram, l1


def _measured(units: Units) -> Callable[[Device], str]:
    def text(device: Device) -> str:
        cb = device.memory.cb
        return units.text(cb.used) + f" {cb_measure(cb)}".ljust(MEASURE)

    return text


def _trend_columns(sheet: Sheet) -> tuple[Columns, Columns]:
    """The largest free blocks; after L1 the trends of both."""
    units = sheet.units

    def largest(title: str, rank: int, get: Callable[[Device], int | None]) -> ListColumn[Device]:
        return _text(sheet, title, rank, lambda one: amount(units, get(one)), right=True)

    def trend(title: str, rank: int, kind: Kind) -> ListColumn[Device]:
        def draw(one: Device, space: int) -> Line:
            return sheet.trend(one, kind, space) if sheet.trend else EMPTY

        title, least = f"{title} {sheet.trend_title}", 2 * LEAST_TREND
        return ListColumn(
            title, _no_text, width=least, most=MOST_TREND, grow=1, rank=rank, draw=draw
        )

    aside = any(one.memory.cb.used for one in sheet.devices)
    free, beside = LARGEST.upper(), WITHOUT_CBS[-1].upper()
    return [largest(free, 5, lambda one: one.memory.dram.largest_free)], [
        largest(beside if aside else free, 6, lambda one: one.memory.l1.largest_free),
        trend("DRAM", 3, DRAM),
        trend("L1", 2, L1_USED),
    ]


def _no_text(one: Device) -> None:
    return None


# -- one cell for each device ----------------------------------------------------------------------

BARS = (24, 18, 12, 8, 6, 4, 0)  # cells; the longest with which all devices fit
TOO_WIDE = 1 << 30  # rows
TITLE = "each device: its id, DRAM (D) and L1 (L) in percent of what can be allocated"


def device_cells(sheet: Sheet, height: int | None = None) -> DeviceArea:
    """At most `height` lines; if not all devices fit, those around the chosen one."""
    devices, width = sheet.devices, sheet.width
    names = DeviceNames(devices)
    titles = [names.some([one.unique_id]) for one in devices]
    name = max(map(columns, titles))
    titled = height is None or height > 3
    space = len(devices) if height is None else height - titled
    bar = next((bar for bar in BARS if _rows(len(devices), width, name, bar) <= space), 0)
    across, cell = _across(width, name, bar), _width(name, bar)
    cells = [_cell(sheet, at, title, name, bar) for at, title in enumerate(titles)]
    rows = [cells[at : at + across] for at in range(0, len(cells), across)]
    hides = len(rows) > space
    shown = max(space - hides, 1)
    first = max(0, min((sheet.chosen or 0) // across - shown // 2, len(rows) - shown))
    lines = [clip_line(faint(" " * GUTTER + TITLE), width)] if titled else []
    places = []
    for row in range(first, min(first + shown, len(rows))):
        for column in range(len(rows[row])):
            start = column * (cell + GAP)
            places.append(ClickArea(row * across + column, len(lines), start, start + cell))
        spans = (span for one in rows[row] for span in (*pad(one, cell), Span(" " * GAP)))
        lines.append(clip_line(tuple(spans), width))
    if hides and height is not None and len(lines) < height:
        below = len(devices) - (first + shown) * across
        lines.append(clip_line(footer(first * across, below, None, sheet.ascii), width))
    return DeviceArea(lines, places, across)


def _cell(sheet: Sheet, at: int, title: str, name: int, bar: int) -> Line:
    space, chosen, device = _meter_width(bar), at == sheet.chosen, sheet.devices[at]
    unknown = faint("N/A".rjust(space))
    return (
        *ink(">" if chosen else " ", Style.CURSOR if chosen else Style.PLAIN),
        *pad(ink(title, Style.CURSOR if chosen else Style.LABEL), name, right=True),
        *faint(" D "),
        *(sheet.meter(device, DRAM, space) or unknown),
        *faint(" L "),
        *(sheet.meter(device, L1, space) or unknown),
    )


def _meter_width(bar: int) -> int:
    return bar + 1 + PERCENT if bar else PERCENT


def _width(name: int, bar: int) -> int:
    return GUTTER + name + 2 * (len(" D ") + _meter_width(bar))


def _across(width: int, name: int, bar: int) -> int:
    return max((width + GAP) // (_width(name, bar) + GAP), 1)


def _rows(count: int, width: int, name: int, bar: int) -> int:
    if bar and _width(name, bar) > width:
        return TOO_WIDE
    return -(-count // _across(width, name, bar))
