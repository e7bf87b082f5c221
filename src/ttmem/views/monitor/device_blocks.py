"""Devices, a few lines for each: the figures with their bars, and below them what they are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from ttmem.views.ink import EMPTY, Line, Span, clip_line, faint, flow, ink, line_columns, pad
from ttmem.views.meter import PERCENT
from ttmem.views.monitor.amounts import Pairs
from ttmem.views.monitor.device_area import DeviceArea, Place
from ttmem.views.monitor.device_lines import pointed
from ttmem.views.monitor.device_parts import DeviceParts, span_text
from ttmem.views.names import logical, model, short_ids, short_pci

GAP = 2
LEAST_BAR = 5
MOST_BAR = 40
NAME_ROOM, WIDE_NAME_ROOM = 13, 22
WIDE = 150  # columns; then kernel code and history have columns of their own
LEAST_PAST, MOST_PAST = 6, 60


@dataclass(frozen=True, slots=True)
class _Sheet:
    """The rooms that all devices share."""

    pairs: Pairs
    number: int
    name: int
    memory: tuple[int, int]  # DRAM, L1
    code: int = 0
    past: int = 0

    @property
    def rooms(self) -> list[int]:
        wide = [self.code, self.past] if self.past else []
        return [self.number, self.name, *self.memory, *wide]


def device_blocks(
    devices: Sequence[DeviceParts], width: int, most: int, chosen: int | None
) -> DeviceArea | None:
    """At most `most` lines for each device; None if the window is too narrow."""
    sheet = _sheet(devices, width)
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


def _sheet(devices: Sequence[DeviceParts], width: int) -> _Sheet | None:
    pairs = Pairs.of(
        devices[0].look.state.units, [pair for one in devices for pair in (one.dram, one.l1)]
    )
    number = max(2, *(len(logical(one.device)) for one in devices))
    wide = width >= WIDE
    name = WIDE_NAME_ROOM if wide else NAME_ROOM if width >= 100 else 9
    code = max(29, *(line_columns(one.circular()) for one in devices)) if wide else 0
    rest = width - 1 - number - name - 3 * GAP - (code + 2 * GAP if wide else 0)
    least = pairs.width + 1 + LEAST_BAR + 1 + PERCENT
    past = min(rest - 2 * least, rest // 4) if wide else 0
    memory = (rest - past) // 2
    if memory < least or (wide and past < LEAST_PAST):
        return None
    return _Sheet(pairs, number, name, (memory, memory), code, past)


def _columns(one: DeviceParts, sheet: _Sheet, short: str, most: int) -> list[list[Line]]:
    dram, l1 = sheet.memory
    bar = min(dram - sheet.pairs.width - 1, MOST_BAR + 1 + PERCENT)
    columns = [
        [ink(logical(one.device).rjust(sheet.number))],
        _names(one, sheet, short)[:most],
        [(*sheet.pairs.line(*one.dram), Span(" "), *one.dram_meter(bar))],
        [(*sheet.pairs.line(*one.l1), Span(" "), *one.l1_meter(bar))],
    ]
    left = flow([*one.dram_room(), *one.trace()], dram)
    if sheet.past:
        columns[2] += left[: most - 1]
        columns[3] += flow([*one.legend(), *one.l1_room()], l1)[: most - 1]
        columns.append([one.circular(), one.ring_fact()][:most])
        columns.append([one.dram_past(sheet.past), one.l1_past(sheet.past)][:most])
    else:
        right = flow([*one.legend(), one.ring_fact(), *one.circular_facts(), *one.l1_room()], l1)
        columns[2] += _with_past(left[: most - 1], one.dram_past, dram, most - 1)
        columns[3] += _with_past(right[: most - 1], one.l1_past, l1, most - 1)
    return columns


def _names(one: DeviceParts, sheet: _Sheet, short: str) -> list[Line]:
    pci = short_pci(one.device) or "PCI N/A"
    if sheet.past:
        return [(*ink(f"{model(one.device)} "), *faint(pci)), faint(short)]
    board = ink(one.device.board or "N/A")
    if sheet.name < NAME_ROOM:
        return [board, faint(short), faint(pci)]
    return [(*board, *faint(f" {pci}")), faint(short)]


def _with_past(lines: list[Line], past: Callable[[int], Line], room: int, most: int) -> list[Line]:
    """The sparkline below the facts, if there is a line left, else after the last that is short."""
    if len(lines) < most:
        return [*lines, past(min(room, MOST_PAST))]
    for at in range(len(lines) - 1, -1, -1):
        free = room - line_columns(lines[at]) - GAP
        if free >= LEAST_PAST:
            lines[at] = (*lines[at], Span(" " * GAP), *past(min(free, MOST_PAST)))
            break
    return lines


def _beside(blocks: Sequence[Sequence[Line]], rooms: Sequence[int]) -> list[Line]:
    out: list[Line] = []
    for cells in zip_longest(*blocks, fillvalue=EMPTY):
        line: list[Span] = []
        for cell, room in zip(cells, rooms, strict=True):
            line += [Span(" " * (GAP if line else 1)), *pad(clip_line(cell, room), room)]
        out.append(tuple(line))
    return out
