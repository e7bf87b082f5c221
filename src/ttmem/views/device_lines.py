"""Devices in one line each, or in a cell each, where there is no space for more."""

from __future__ import annotations

from collections.abc import Callable

from ttmem.snapshots import Device
from ttmem.text import columns
from ttmem.views.devices import (
    LARGEST,
    LEAST_TREND,
    MOST_BAR,
    MOST_TREND,
    SHORT_BAR,
    USED,
    WITHOUT_CBS,
    ClickArea,
    DeviceArea,
    Sheet,
    cb_measure,
    dram_use,
    l1_use,
    requested_text,
    trace_text,
)
from ttmem.views.figures import AMOUNT, DRAM, L1, L1_USED, Kind, Pair, amount
from ttmem.views.ink import EMPTY, Line, Span, Style, clip_line, faint, ink, joined, pad
from ttmem.views.meter import PERCENT
from ttmem.views.names import board, logical, short_ids, short_pci
from ttmem.views.table import GAP, GUTTER, Column, ListColumn, footer, table_of

# -- one line for each device ----------------------------------------------------------------------

ID_WIDTH, WIDE_ID_WIDTH = 13, 24
BAR = SHORT_BAR + 1 + PERCENT  # columns with its percentage
MEASURE = len(" resident")  # of circular buffers


Columns = list[Column[Device]]


def device_lines(sheet: Sheet, whole: bool = False) -> DeviceArea | None:
    """A line for each device under a line of titles; None if the window is too narrow.

    `whole`: nothing may be left out for want of space. Else `ps` gives up its bars before unique ids.
    """
    space = sheet.width - GUTTER
    named = (BAR, ID_WIDTH, 0), (PERCENT, ID_WIDTH, 0)
    shorter = (BAR, ID_WIDTH, 7), (PERCENT, ID_WIDTH, 7)
    figures = (0, ID_WIDTH, 7)  # and nothing else
    narrow = (*shorter, figures) if sheet.trend else (*named, *shorter, figures)
    tries = [(BAR, WIDE_ID_WIDTH, 0)] if whole else narrow
    for bar, id_width, id_rank in tries:
        columns = _columns(sheet, bar, id_width, id_rank)
        table = table_of(columns, sheet.devices).fitted(space)
        if table.width > space or (whole and len(table.columns) < len(columns)):
            continue
        title, *rows = (table.listed(one, sheet.width) for one in (table.titles, *table.rows))
        lines = [title, *(sheet.pointed(row, at) for at, row in enumerate(rows))]
        return DeviceArea(lines, [ClickArea(at, at + 1) for at in range(len(rows))])
    return None


def _columns(sheet: Sheet, bar: int, id_width: int, id_rank: int) -> Columns:
    ids = short_ids((one.unique_id for one in sheet.devices), id_width)
    dram, l1 = _trend_columns(sheet) if sheet.trend else _detail_columns(sheet)
    alone = sheet.width < 100 and len({one.board for one in sheet.devices}) == 1
    return [
        Column("ID", logical, right=True),
        Column("BOARD", lambda one: (alone and one.position) or board(one), rank=1),
        Column("PCI", lambda one: faint(short_pci(one) or "N/A"), rank=4),
        Column("UNIQUE ID", lambda one: faint(ids[one.unique_id]), rank=id_rank),
        _use_column(sheet, DRAM, dram_use, bar),
        *dram,
        _use_column(sheet, L1, l1_use, bar),
        *l1,
    ]


def _use_column(
    sheet: Sheet, kind: Kind, use: Callable[[Device], Pair], bar: int
) -> ListColumn[Device]:
    pairs = sheet.pairs

    def draw(one: Device, space: int) -> Line:
        rest = space - pairs.width - 1
        figures = pairs.line(*use(one))
        return (*figures, Span(" "), *sheet.meter(one, kind, rest)) if rest >= PERCENT else figures

    least, most = pairs.width + (1 + bar if bar else 0), pairs.width + 1 + MOST_BAR + 1 + PERCENT
    title = f"{kind.title} {USED}"
    return ListColumn(title, lambda one: None, width=least, most=most, grow=2, draw=draw)


def _detail_columns(sheet: Sheet) -> tuple[Columns, Columns]:
    """Those beside DRAM that some device has, and the parts of L1."""
    units = sheet.units

    def column(title: str, get: Callable[[Device], str], more: int = 0) -> Column[Device]:
        return Column(title, get, right=True, width=AMOUNT + more, rank=8)

    def circular(one: Device) -> str:
        cb = one.memory.cb
        return units.text(cb.used) + f" {cb_measure(cb)}".ljust(MEASURE)

    dram = []
    if any(requested_text(one, units) for one in sheet.devices):
        dram.append(column("REQUESTED", lambda one: requested_text(one, units) or ""))
    if any(trace_text(one, units) for one in sheet.devices):
        width = len(" / ") + AMOUNT
        dram.append(column("TRACE", lambda one: trace_text(one, units) or "", width))
    l1 = [
        column("L1", lambda one: units.text(one.memory.l1.held)),
        column("L1_SMALL", lambda one: units.text(one.memory.l1_small.held)),
        column("CB" + " " * MEASURE, circular, MEASURE),
    ]
    return dram, l1


def _trend_columns(sheet: Sheet) -> tuple[Columns, Columns]:
    """The largest free blocks; after L1 the trends of both."""
    units = sheet.units

    def largest(title: str, rank: int, get: Callable[[Device], int | None]) -> Column[Device]:
        return Column(title, lambda one: amount(units, get(one)), right=True, rank=rank)

    def trend(title: str, rank: int, kind: Kind) -> ListColumn[Device]:
        def draw(one: Device, space: int) -> Line:
            return sheet.trend(one, kind, space) if sheet.trend else EMPTY

        return ListColumn(
            f"{title} {sheet.trend_title}",
            lambda one: None,
            width=2 * LEAST_TREND,
            most=MOST_TREND,
            grow=1,
            rank=rank,
            draw=draw,
        )

    aside = any(one.memory.cb.used for one in sheet.devices)
    free, beside = LARGEST.upper(), WITHOUT_CBS[-1].upper()
    return [largest(free, 5, lambda one: one.memory.dram.largest_free)], [
        largest(beside if aside else free, 6, lambda one: one.memory.l1.largest_free),
        trend("DRAM", 3, DRAM),
        trend("L1", 2, L1_USED),
    ]


# -- one cell for each device ----------------------------------------------------------------------

BARS = (24, 18, 12, 8, 6, 4, 0)  # cells; the longest with which all devices fit
TOO_WIDE = 1 << 30  # rows
TITLES = (  # the first that fits
    "each device: its id, DRAM (D) and L1 (L) in percent of what can be allocated",
    "id, DRAM (D) and L1 (L) in percent of capacity",
    "id, DRAM (D), L1 (L) in percent",
)


def device_cells(sheet: Sheet, height: int | None = None) -> DeviceArea:
    """At most `height` lines; if not all devices fit, those around the chosen one."""
    devices, width = sheet.devices, sheet.width
    titles = [sheet.names.some([one.unique_id]) for one in devices]
    name = max(map(columns, titles))
    titled = height is None or height > 3
    space = len(devices) if height is None else height - titled
    bar = next((bar for bar in BARS if _rows(len(devices), width, name, bar) <= space), 0)
    across, cell = _across(width, name, bar), _width(name, bar)
    cells = [_cell(sheet, at, one, name, bar) for at, one in enumerate(titles)]
    rows = [cells[at : at + across] for at in range(0, len(cells), across)]
    hides = len(rows) > space
    shown = max(space - hides, 1)
    first = max(0, min((sheet.chosen or 0) // across - shown // 2, len(rows) - shown))
    title = next((one for one in TITLES if GUTTER + len(one) <= width), TITLES[-1])
    lines = [clip_line(faint(" " * GUTTER + title), width)] if titled else []
    places = []
    for row in range(first, min(first + shown, len(rows))):
        for column in range(len(rows[row])):
            start = column * (cell + GAP)
            places.append(ClickArea(row * across + column, len(lines), start, start + cell))
        lines.append(clip_line(joined([pad(one, cell) for one in rows[row]], " " * GAP), width))
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
