"""The device table, in the first of its shapes that fits: one line per device, two, or more."""

from __future__ import annotations

from collections.abc import Sequence

from ttmem.snapshots import Device
from ttmem.views.device_facts import Figures, device_facts
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
from ttmem.views.ink import Line, Span, faint, flow, indent, ink, pad
from ttmem.views.meter import PERCENT, level, of_capacity, percentage

MANY = 8  # devices; more of them than that get two dense lines rather than three
LABEL = len("DRAM ")
ID_ROOM = 15
WIDE_ID_ROOM = 24


def device_table(devices: Sequence[Device], width: int) -> list[Line]:
    """The table of at least one device."""
    return (
        one_line(devices, width)
        or _two_lines(DeviceSheet.of(devices), width)
        or _two_lines(DeviceSheet.of(devices, trace_limit=False), width)
        or _two_lines(DeviceSheet.of(devices, trace_limit=False), width, folded=True)
        or (_dense if len(devices) > MANY else _tall)(DeviceSheet.of(devices), width)
        or _stacked(devices, width)
    )


def _two_lines(sheet: DeviceSheet, width: int, folded: bool = False) -> list[Line]:
    """DRAM and L1 side by side, their parts below; `folded`: the parts of L1 may take two lines."""
    short = sheet.short_ids(WIDE_ID_ROOM)
    names = [
        [(*ink(f"{one.model} "), *faint(one.pci or "")), faint(short[one.unique_id])]
        for one in sheet.facts
    ]
    name = widest(names)
    least = sheet.cell + 1 + LEAST_METER
    dram = max(least, widest([flow(one.beside_dram, width) for one in sheet.facts]))
    l1 = least if folded else max(least, widest([one.parts(width) for one in sheet.facts]))
    spare = width - (1 + sheet.number + name + dram + l1 + 3 * GAP)
    if spare < 0:
        return []
    dram = max(dram, min(dram + (0 if folded else spare), sheet.cell + 1 + MOST_METER))
    rooms = (sheet.number, name, dram, width - (1 + sheet.number + name + dram + 3 * GAP))
    lines = heads(("ID", "DEVICE", "DRAM used / capacity", "L1 used / capacity"), rooms)
    for one, named in zip(sheet.facts, names, strict=True):
        left = [sheet.metered(one.dram, dram), *flow(one.beside_dram, dram)]
        right = [sheet.metered(one.l1, min(dram, rooms[-1])), *one.parts(rooms[-1])]
        lines += beside([sheet.numbered(one), named, left, right], rooms)
    return lines


def _tall(sheet: DeviceSheet, width: int) -> list[Line]:
    """DRAM above L1, the device's names beside them."""
    least = LABEL + sheet.cell + 1 + LEAST_METER
    name_room = width - (1 + sheet.number + least + 2 * GAP)
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
            *indent(flow(one.beside_dram, room), LABEL),
            (*faint("L1   "), *sheet.metered(one.l1, room)),
            *indent(one.parts(room), LABEL),
        ]
        lines += beside([sheet.numbered(one), named, memory], rooms)
    return lines


def _dense(sheet: DeviceSheet, width: int) -> list[Line]:
    """Two lines for each of many devices, without bars."""
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
        below = [*one.parts(room), *flow(one.beside_dram, room)]
        lines += beside([sheet.numbered(one), named, [figures, *below]], rooms)
    return lines


def _stacked(devices: Sequence[Device], width: int) -> list[Line]:
    """For narrow windows: sentences instead of columns."""
    lines: list[Line] = []
    for device in devices:
        one = device_facts(device)
        by = len(one.number) + 2
        name = [ink(one.model), faint(one.unique_id), *one.pci_line]
        facts = [_figure("DRAM", one.dram), *one.beside_dram, _figure("L1", one.l1)]
        block = [*flow(name, width - by), *flow(facts, width - by), *one.parts(width - by)]
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
