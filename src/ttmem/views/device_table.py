"""The device table, in the widest shape that fits."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from ttmem.sizes import human
from ttmem.snapshot import Device
from ttmem.views.device_facts import DeviceFacts, device_facts, fact
from ttmem.views.device_line import one_line
from ttmem.views.ink import EMPTY, Line, Span, faint, flow, indent, ink, line_columns, pad
from ttmem.views.meter import PERCENT, meter, of_capacity, percentage
from ttmem.views.names import short_ids

LEAST_METER = 16  # '!! over capacity'
MOST_METER = 34
MANY = 8  # devices; more than that get two lines each where one with everything does not fit
GAP = 2


def device_table(devices: Sequence[Device], width: int) -> list[Line]:
    """One line for each device, or two, or three, as the width allows."""
    shapes = (one_line, _two_lines, _dense if len(devices) > MANY else _tall)
    for shape in shapes:
        lines = shape(devices, width)
        if lines is not None:
            return lines
    return _stacked(devices, width)


def _two_lines(devices: Sequence[Device], width: int) -> list[Line] | None:
    facts = [device_facts(device) for device in devices]
    used, limit = _rooms(facts)
    cell = used + limit + 3
    number = max(len("ID"), *(len(one.number) for one in facts))
    names = [[ink(_title(one)), faint(one.unique_id)] for one in facts]
    name = max(line_columns(line) for lines in names for line in lines)
    dram = _needed([one.beside_dram for one in facts], cell)
    l1 = _needed([one.l1_parts for one in facts], cell)
    slack = width - (1 + number + name + dram + l1 + 3 * GAP)
    if slack < 0:
        return None
    dram = min(dram + slack // 2, cell + 1 + MOST_METER)
    l1 = min(l1 + slack - slack // 2, max(l1, cell + 1 + MOST_METER))
    rooms = (number, name, dram, l1)
    head = [["ID"], ["DEVICE"], ["DRAM used / capacity"], ["L1 used / capacity"]]
    lines = _beside([[faint(text) for text in column] for column in head], rooms)
    for one, named in zip(facts, names, strict=True):
        blocks = [
            [ink(one.number.rjust(number))],
            named,
            [_metered(one.dram, used, limit, dram), *flow(one.beside_dram, dram)],
            [_metered(one.l1, used, limit, l1), *flow(one.l1_parts, l1)],
        ]
        lines += _beside(blocks, rooms)
    return lines


def _tall(devices: Sequence[Device], width: int) -> list[Line] | None:
    facts = [device_facts(device) for device in devices]
    used, limit = _rooms(facts)
    number = max(len("ID"), *(len(one.number) for one in facts))
    least = 5 + used + limit + 3 + 1 + LEAST_METER
    name_room = width - (1 + number + least + 2 * GAP)
    short = short_ids((one.unique_id for one in facts), min(name_room, 20))
    names = [[*_model(one), faint(short[one.unique_id]), *_pci(one)] for one in facts]
    name = max(line_columns(line) for lines in names for line in lines)
    if name > name_room:
        return None
    room = width - (1 + number + name + 2 * GAP)
    rooms = (number, name, room)
    lines = _beside([[faint("ID")], [faint("DEVICE")], [faint("     used / capacity")]], rooms)
    for one, named in zip(facts, names, strict=True):
        memory = [
            (*faint("DRAM "), *_metered(one.dram, used, limit, room - 5)),
            *indent(flow(one.beside_dram, room - 5), 5),
            (*faint("L1   "), *_metered(one.l1, used, limit, room - 5)),
            *indent(flow(one.l1_parts, room - 5), 5),
        ]
        lines += _beside([[ink(one.number.rjust(number))], named, memory], rooms)
    return lines


def _dense(devices: Sequence[Device], width: int) -> list[Line] | None:
    facts = [device_facts(device) for device in devices]
    used, limit = _rooms(facts)
    cell = used + limit + 3 + 1 + PERCENT
    number = max(len("ID"), *(len(one.number) for one in facts))
    name_room = width - (1 + number + 2 * cell + 3 * GAP)
    short = short_ids((one.unique_id for one in facts), min(name_room, 20))
    names = [[faint(short[one.unique_id]), *_model(one)] for one in facts]
    name = max(line_columns(line) for lines in names for line in lines)
    if name > name_room:
        return None
    rooms = (number, name, cell, cell)
    head = ("ID", "DEVICE", "DRAM used / capacity", "L1 used / capacity")
    lines = _beside([[faint(text)] for text in head], rooms)
    wide = (number, name, width - (1 + number + name + 2 * GAP))
    for one, named in zip(facts, names, strict=True):
        figures = (_metered(one.dram, used, limit, cell), _metered(one.l1, used, limit, cell))
        figure_line = (*pad(figures[0], cell), Span(" " * GAP), *figures[1])
        below = flow((*one.l1_parts, *one.beside_dram), wide[-1])
        lines += _beside([[ink(one.number.rjust(number))], named, [figure_line, *below]], wide)
    return lines


def _stacked(devices: Sequence[Device], width: int) -> list[Line]:
    lines: list[Line] = []
    for device in devices:
        one = device_facts(device)
        name = [ink(one.number), ink(one.model), faint(one.unique_id), *_pci(one)]
        lines += flow(name, width)
        figures = [_figure("DRAM", one.dram), *one.beside_dram, _figure("L1", one.l1)]
        lines += indent(flow((*figures, *one.l1_parts), width - 3), 3)
    return lines


def _figure(label: str, figures: tuple[int, int | None]) -> Line:
    text = percentage(*figures)
    over = " capacity" if text == "over" else ""
    return (*fact(f"{label} used", ""), *of_capacity(*figures), *ink(f" {text}{over}"))


def _rooms(facts: Sequence[DeviceFacts]) -> tuple[int, int]:
    figures = [pair for one in facts for pair in (one.dram, one.l1)]
    return (
        max(len(human(used)) for used, _ in figures),
        max(len(human(limit)) for _, limit in figures),
    )


def _needed(beside: Sequence[Sequence[Line]], cell: int) -> int:
    flowed = [sum(map(line_columns, lines)) + 2 * (len(lines) - 1) for lines in beside]
    return max(cell + 1 + LEAST_METER, *flowed)


def _metered(figures: tuple[int, int | None], used: int, limit: int, room: int) -> Line:
    bar = min(room - used - limit - 4, MOST_METER)
    return (*of_capacity(*figures, used, limit), Span(" "), *meter(*figures, bar))


def _title(one: DeviceFacts) -> str:
    return f"{one.model} {one.pci}" if one.pci else one.model


def _model(one: DeviceFacts) -> list[Line]:
    return [ink(one.model)]


def _pci(one: DeviceFacts) -> list[Line]:
    return [faint(one.pci)] if one.pci else []


def _beside(blocks: Sequence[Sequence[Line]], rooms: Sequence[int]) -> list[Line]:
    """Blocks of lines next to each other, one column in from the left."""
    out: list[Line] = []
    for cells in zip_longest(*blocks, fillvalue=EMPTY):
        line: list[Span] = [Span(" ")]
        for at, (cell, room) in enumerate(zip(cells, rooms, strict=True)):
            line.extend(pad(cell, room) if at == len(rooms) - 1 else (*pad(cell, room), Span(" " * GAP)))
        out.append(tuple(line))
    return out
