"""The device table, in the first of its shapes that fits: one line per device, two, or more."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from ttmem.snapshots import Device
from ttmem.views.device_facts import DeviceFacts, Figures, device_facts
from ttmem.views.device_line import one_line
from ttmem.views.device_sheet import (
    GAP,
    LEAST_METER,
    MOST_METER,
    DeviceSheet,
    beside,
    heads,
    widest,
)
from ttmem.views.grid import Column, Grid
from ttmem.views.ink import EMPTY, Line, Span, faint, flow, indent, ink, pad
from ttmem.views.meter import PERCENT, level, of_capacity, percentage

MANY = 8  # devices; more of them than that get two dense lines rather than three
LABEL = len("DRAM ")
ID_ROOM = 13  # with it, the parts of L1 stay on one line at 80 columns
WIDE_ID_ROOM = 24
SHORT_ID_ROOM = 9
LEAST_BAR = 6  # cells; a shorter one says less than its percentage


class Shape(Enum):
    """How much of the height devices may take."""

    WHOLE = "all that is known"
    DENSE = "two lines for each"
    LINE = "one line for each"


def device_table(devices: Sequence[Device], width: int, shape: Shape = Shape.WHOLE) -> list[Line]:
    """The table of at least one device."""
    sheet = DeviceSheet.of(devices)
    if shape is Shape.LINE:
        return one_line(devices, width) or _short(sheet, width)
    if shape is Shape.DENSE:
        return (
            one_line(devices, width)
            or _two_lines(sheet, width)
            or _dense(sheet, width, whole=False)
            or _short(sheet, width)
        )
    return (
        one_line(devices, width)
        or _two_lines(sheet, width)
        or _three_lines(sheet, width)
        or (_dense if len(devices) > MANY else _tall)(sheet, width)
        or _stacked(devices, width)
    )


def _two_lines(sheet: DeviceSheet, width: int) -> list[Line]:
    """DRAM and L1 side by side, their parts below."""
    short = sheet.short_ids(WIDE_ID_ROOM)
    names = [
        [(*ink(f"{one.model} "), *faint(one.pci or "")), faint(short[one.unique_id])]
        for one in sheet.facts
    ]
    dram = max(_least(sheet), *(one.beside_room for one in sheet.facts))
    l1 = max(_least(sheet), *(one.parts_room for one in sheet.facts))
    return _side_by_side(sheet, names, (dram, l1), width)


def _three_lines(sheet: DeviceSheet, width: int) -> list[Line]:
    """The same with narrower names; the parts of L1 may take two lines, then those of DRAM."""
    short = sheet.short_ids(ID_ROOM)
    names = [[ink(one.model), faint(short[one.unique_id]), *one.pci_line] for one in sheet.facts]
    least = _least(sheet)
    dram = max(least, *(one.beside_room for one in sheet.facts))
    l1 = max(least, *(one.parts_room for one in sheet.facts))
    return (
        _side_by_side(sheet, names, (dram, l1), width)
        or _side_by_side(sheet, names, (dram, least), width)
        or _side_by_side(sheet, names, (least, least), width)
    )


def _least(sheet: DeviceSheet) -> int:
    return sheet.cell + 1 + LEAST_METER


def _side_by_side(
    sheet: DeviceSheet, names: Sequence[Sequence[Line]], least: tuple[int, int], width: int
) -> list[Line]:
    """Names, DRAM, L1; nothing if the least rooms do not fit."""
    name, (dram, l1) = widest(names), least
    spare = width - (1 + sheet.number + name + dram + l1 + 3 * GAP)
    if spare < 0:
        return []
    dram = max(dram, min((dram + l1 + spare) // 2, dram + spare, sheet.cell + 1 + MOST_METER))
    rooms = (sheet.number, name, dram, width - (1 + sheet.number + name + dram + 3 * GAP))
    lines = heads(("ID", "DEVICE", "DRAM used / capacity", "L1 used / capacity"), rooms)
    bars = min(dram, rooms[-1])
    for one, named in zip(sheet.facts, names, strict=True):
        left = [sheet.metered(one.dram, bars), *one.beside(dram)]
        right = [sheet.metered(one.l1, bars), *one.parts(rooms[-1])]
        lines += beside([sheet.numbered(one), named, left, right], rooms)
    return lines


def _tall(sheet: DeviceSheet, width: int) -> list[Line]:
    """DRAM above L1, the device's names beside them."""
    name_room = width - (1 + sheet.number + LABEL + _least(sheet) + 2 * GAP)
    short = sheet.short_ids(min(name_room, ID_ROOM))
    names = [[ink(one.model), faint(short[one.unique_id]), *one.pci_line] for one in sheet.facts]
    name = widest(names)
    if name > name_room:
        return []
    room = width - (1 + sheet.number + name + LABEL + 2 * GAP)
    rooms = (sheet.number, name, LABEL + room)
    lines = heads(("ID", "DEVICE", " " * LABEL + "used / capacity"), rooms)
    for one, named in zip(sheet.facts, names, strict=True):
        memory = [
            (*faint("DRAM "), *sheet.metered(one.dram, room)),
            *indent(one.beside(room), LABEL),
            (*faint("L1   "), *sheet.metered(one.l1, room)),
            *indent(one.parts(room), LABEL),
        ]
        lines += beside([sheet.numbered(one), named, memory], rooms)
    return lines


def _dense(sheet: DeviceSheet, width: int, whole: bool = True) -> list[Line]:
    """Two lines for each of many devices, without bars; a third one if `whole` and need be."""
    cell = sheet.cell + 1 + PERCENT
    name_room = width - (1 + sheet.number + 2 * cell + 3 * GAP)
    short = sheet.short_ids(min(name_room, ID_ROOM))
    names = [
        [faint(short[one.unique_id]), (*ink(f"{one.board} "), *faint(one.pci or ""))]
        for one in sheet.facts
    ]
    name = widest(names)
    if name > name_room:
        return []
    room = width - (1 + sheet.number + name + 2 * GAP)
    rooms = (sheet.number, name, room)
    titles = "DRAM used / capacity".ljust(cell + GAP) + "L1 used / capacity"
    lines = heads(("ID", "DEVICE", titles), rooms)
    for one, named in zip(sheet.facts, names, strict=True):
        figures = (
            *pad(sheet.metered(one.dram, cell), cell),
            Span(" " * GAP),
            *sheet.metered(one.l1, cell),
        )
        below = [*one.parts(room), *one.beside(room)] if whole else one.parts(room)[:1]
        lines += beside([sheet.numbered(one), named, [figures, *below]], rooms)
    return lines


def _short(sheet: DeviceSheet, width: int) -> list[Line]:
    """One line for each device, whatever has to go for it: bars, names, capacities."""
    short = sheet.short_ids(SHORT_ID_ROOM)
    for name in (_board_and_id, _id_only, _no_name):
        names = [name(one, short) for one in sheet.facts]
        grid = _short_grid(sheet, names, PERCENT)
        spare = (width - 1 - grid.width) // 2
        if spare >= 0:
            bar = PERCENT + spare if spare > LEAST_BAR else PERCENT
            return indent(_short_grid(sheet, names, min(bar, MOST_METER)).lines(), 1)
    columns = [Column(title, right=True) for title in ("ID", "DRAM", "", "L1", "")]
    rows = [[ink(one.number), *_bare(one.dram), *_bare(one.l1)] for one in sheet.facts]
    return indent(Grid(columns, rows, gap=1).lines(), 1)


def _board_and_id(one: DeviceFacts, short: dict[str, str]) -> Line:
    return (*ink(f"{one.board} "), *faint(short[one.unique_id]))


def _id_only(one: DeviceFacts, short: dict[str, str]) -> Line:
    return faint(short[one.unique_id])


def _no_name(one: DeviceFacts, short: dict[str, str]) -> Line:
    return EMPTY


def _short_grid(sheet: DeviceSheet, names: Sequence[Line], bar: int) -> Grid:
    room = sheet.cell + 1 + bar
    named = any(names)
    columns = [
        Column("ID", right=True),
        *([Column("DEVICE")] if named else []),
        Column("DRAM used / capacity"),
        Column("L1 used / capacity"),
    ]
    rows = [
        [
            ink(one.number),
            *([name] if named else []),
            sheet.metered(one.dram, room),
            sheet.metered(one.l1, room),
        ]
        for one, name in zip(sheet.facts, names, strict=True)
    ]
    return Grid(columns, rows)


def _bare(figures: Figures) -> tuple[Line, Line]:
    used, _, _ = of_capacity(*figures)
    return (used,), ink(percentage(*figures), level(*figures))


def _stacked(devices: Sequence[Device], width: int) -> list[Line]:
    """For narrow windows: sentences instead of columns."""
    lines: list[Line] = []
    for device in devices:
        one = device_facts(device)
        by = len(one.number) + 2
        room = width - by
        name = [ink(one.model), faint(one.unique_id), *one.pci_line]
        dram = [_figure("DRAM", one.dram), *(beside.line for beside in one.beside_dram)]
        facts = [*dram, _figure("L1", one.l1)]
        block = [*flow(name, room), *flow(facts, room), *one.parts(room)]
        lines += indent(block, by, ink(one.number))
    return lines


def _figure(label: str, figures: Figures) -> Line:
    text = percentage(*figures)
    said = "over capacity" if text == "over" else text
    return (
        *faint(f"{label} used "),
        *of_capacity(*figures),
        Span(" "),
        *ink(said, level(*figures)),
    )
