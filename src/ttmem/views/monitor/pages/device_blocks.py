"""Devices with a few lines for each, and with a cell for each.

Every device has the same facts in the same places, and each amount keeps its room: while numbers
change, and between one device and the next, nothing moves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import NamedTuple

from ttmem.text import columns
from ttmem.views.ink import EMPTY, Line, Span, Style, clip_line, faint, flow, ink, line_columns, pad
from ttmem.views.meter import PERCENT
from ttmem.views.monitor.figures import Pairs
from ttmem.views.monitor.listing import GUTTER, footer
from ttmem.views.monitor.pages.device_lines import (
    DeviceArea,
    DeviceParts,
    Place,
    pointed,
    span_text,
)
from ttmem.views.names import DeviceNames, logical, model, short_ids, short_pci

GAP = 2
LEAST_BAR, SHORT_BAR = 5, 4  # cells; the short one before there are no blocks at all
MOST_BAR = 40
NARROW_NAME, NAME_ROOM, WIDE_NAME_ROOM = 9, 14, 22
WIDE = 150  # columns; then kernel code and history have columns of their own
LEAST_PAST, MOST_PAST = 6, 60


class _Sheet(NamedTuple):
    """What all devices share: the rooms of the columns, and which facts anybody knows."""

    pairs: Pairs
    number: int
    name: int
    memory: tuple[int, int]  # DRAM, L1
    code: int = 0
    past: int = 0
    dram_room: bool = True  # free and largest block of somebody's DRAM are known
    l1_room: bool = True
    trace: bool = True

    @property
    def rooms(self) -> list[int]:
        wide = [self.code, self.past] if self.past else []
        return [self.number, self.name, *self.memory, *wide]


def device_blocks(
    devices: Sequence[DeviceParts], width: int, most: int, chosen: int | None
) -> DeviceArea | None:
    """At most `most` lines for each device; None if the window is too narrow."""
    sheet = _sheet(devices, width, LEAST_BAR) or _sheet(devices, width, SHORT_BAR)
    if sheet is None:
        return None
    look = devices[0].look
    heads = ["ID", "DEVICE", "DRAM used / capacity", "L1 used / capacity"]
    wide = ["CB resident / cached / demand", f"LAST {span_text(look)} of DRAM, L1"]
    lines = _beside([[faint(head)] for head in heads + (wide if sheet.past else [])], sheet.rooms)
    ids = short_ids((one.device.unique_id for one in devices), sheet.name)
    places = []
    for at, one in enumerate(devices):
        block = _beside(_columns(one, sheet, ids[one.device.unique_id], most), sheet.rooms)
        places += [Place(at, len(lines) + row) for row in range(len(block))]
        lines += [pointed(block[0], at == chosen), *block[1:]]
    return DeviceArea([clip_line(line, width) for line in lines], places)


def _sheet(devices: Sequence[DeviceParts], width: int, bar: int) -> _Sheet | None:
    pairs = Pairs.of(
        devices[0].look.state.units, [pair for one in devices for pair in (one.dram, one.l1)]
    )
    number = max(2, *(len(logical(one.device)) for one in devices))
    wide = width >= WIDE
    name = WIDE_NAME_ROOM if wide else NAME_ROOM if width >= 100 else NARROW_NAME
    code = max(29, *(line_columns(one.circular()) for one in devices)) if wide else 0
    rest = width - 1 - number - name - 3 * GAP - (code + 2 * GAP if wide else 0)
    least = pairs.width + 1 + bar + 1 + PERCENT
    past = min(rest - 2 * least, rest // 4) if wide else 0
    memory = (rest - past) // 2
    if memory < least or (wide and past < LEAST_PAST):
        return None
    longest = max(
        line_columns(line)
        for facts in (devices[0].legend(), () if wide else devices[0].circular_facts())
        for line in flow(facts, rest)
    )
    l1 = max(memory, min(longest, rest - past - least))
    uses = [one.device.memory for one in devices]
    return _Sheet(
        pairs,
        number,
        name,
        (rest - past - l1, l1),
        code,
        past,
        any(use.dram.free is not None or use.dram.largest_free is not None for use in uses),
        any(use.l1.free is not None or use.l1.largest_free is not None for use in uses),
        any(one.has_trace for one in devices),
    )


def _columns(one: DeviceParts, sheet: _Sheet, short: str, most: int) -> list[list[Line]]:
    bars = [min(room - sheet.pairs.width - 1, MOST_BAR + 1 + PERCENT) for room in sheet.memory]
    columns = [
        [ink(logical(one.device).rjust(sheet.number))],
        _names(one, sheet, short)[:most],
        [(*sheet.pairs.line(*one.dram), Span(" "), *one.dram_meter(bars[0]))],
        [(*sheet.pairs.line(*one.l1), Span(" "), *one.l1_meter(bars[1]))],
    ]
    dram, l1 = _facts(one, sheet)
    if sheet.past:
        columns[2] += dram[: most - 1]
        columns[3] += l1[: most - 1]
        columns.append([one.circular(), one.ring_fact()][:most])
        columns.append([one.dram_past(sheet.past), one.l1_past(sheet.past)][:most])
    else:
        last = min(max(_lines(dram, sheet.memory[0]), _lines(l1, sheet.memory[1])), most - 1)
        columns[2] += _with_past(dram, one.dram_past, sheet.memory[0], last)
        columns[3] += _with_past(l1, one.l1_past, sheet.memory[1], last)
    return columns


def _facts(one: DeviceParts, sheet: _Sheet) -> tuple[list[Line], list[Line]]:
    """What DRAM and L1 are made of, in lines of their columns."""
    dram = [*(one.dram_room() if sheet.dram_room else ()), *([one.trace()] if sheet.trace else ())]
    l1 = one.legend()
    if sheet.name < NAME_ROOM:
        l1.insert(1, l1.pop())  # the short ones beside each other
    if not sheet.past:
        l1 += [*one.circular_facts(), *([one.ring_fact()] if sheet.name < NAME_ROOM else ())]
    l1 += one.l1_room() if sheet.l1_room else ()
    return flow(dram, sheet.memory[0]), flow(l1, sheet.memory[1])


def _names(one: DeviceParts, sheet: _Sheet, short: str) -> list[Line]:
    pci = short_pci(one.device) or "PCI N/A"
    if sheet.past:
        return [(*ink(f"{model(one.device)} "), *faint(pci)), faint(short)]
    board = ink(one.device.board or "N/A")
    if sheet.name < NAME_ROOM:
        return [board, faint(short), faint(pci)]
    return [(*board, *faint(f" {pci}")), faint(short), *one.ring_lines()]


def _lines(facts: Sequence[Line], room: int) -> int:
    """How many lines facts need with a sparkline after the last, or below it."""
    return len(facts) + (not facts or _left(facts[-1], room) < LEAST_PAST)


def _left(line: Line, room: int) -> int:
    return room - line_columns(line) - GAP


def _with_past(
    facts: Sequence[Line], past: Callable[[int], Line], room: int, last: int
) -> list[Line]:
    """The facts in `last` lines, and on the last of them, at the right end, the sparkline."""
    lines = [*facts, *[EMPTY] * last][:last]
    if not lines:
        return []
    end = lines[-1]
    long = room if end == EMPTY else _left(end, room)
    if long >= LEAST_PAST:
        drawn = past(min(long, MOST_PAST))
        lines[-1] = (*pad(end, room - line_columns(drawn)), *drawn)
    return lines


def _beside(blocks: Sequence[Sequence[Line]], rooms: Sequence[int]) -> list[Line]:
    out: list[Line] = []
    for cells in zip_longest(*blocks, fillvalue=EMPTY):
        line: list[Span] = []
        for cell, room in zip(cells, rooms, strict=True):
            line += [Span(" " * (GAP if line else 1)), *pad(clip_line(cell, room), room)]
        out.append(tuple(line))
    return out


BARS = (24, 18, 12, 8, 6, 4, 0)  # cells; the longest with which all devices fit
TOO_WIDE = 1 << 30  # rows
TITLE = "each device: its id, DRAM (D) and L1 (L) in percent of what can be allocated"


def fleet(
    devices: Sequence[DeviceParts], width: int, height: int, chosen: int | None
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


def _cell(one: DeviceParts, title: str, name: int, bar: int, chosen: bool) -> Line:
    room = bar + 1 + PERCENT if bar else PERCENT
    style = Style.CURSOR if chosen else Style.LABEL
    return (
        *ink(">" if chosen else " ", Style.CURSOR if chosen else Style.PLAIN),
        *pad(ink(title, style), name, right=True),
        *faint(" D "),
        *one.dram_meter(room, alone=True),
        *faint(" L "),
        *one.l1_meter(room, alone=True),
    )


def _joined(cells: Sequence[Line], width: int) -> Line:
    return tuple(span for cell in cells for span in (*pad(cell, width), Span(" " * GAP)))


def _width(name: int, bar: int) -> int:
    return GUTTER + name + 2 * (len(" D ") + (bar + 1 + PERCENT if bar else PERCENT))


def _across(width: int, name: int, bar: int) -> int:
    return max((width + GAP) // (_width(name, bar) + GAP), 1)


def _rows(devices: Sequence[DeviceParts], width: int, name: int, bar: int) -> int:
    if bar and _width(name, bar) > width:
        return TOO_WIDE
    return -(-len(devices) // _across(width, name, bar))
