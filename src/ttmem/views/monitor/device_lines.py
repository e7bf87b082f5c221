"""Devices, one line for each; columns go from the least important on when there is no room."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ttmem.views.ink import Line, Style, faint, ink, line_columns
from ttmem.views.meter import PERCENT
from ttmem.views.monitor.amounts import Pairs
from ttmem.views.monitor.device_area import DeviceArea, Place
from ttmem.views.monitor.device_parts import DeviceParts, span_text
from ttmem.views.monitor.list_columns import GAP
from ttmem.views.monitor.list_lines import GUTTER, row_line
from ttmem.views.names import logical, short_ids, short_pci

SHORT_BAR = 6
LONG_BAR = 24
ID_ROOM = 13
LEAST_PAST, MOST_PAST = 8, 24


@dataclass(frozen=True, slots=True)
class _Column:
    """A column that is made for its width: `least`, or up to `most` where there is room."""

    title: str
    rank: int  # 0 stays; of the others the highest goes first
    cell: Callable[[DeviceParts, int], Line]
    least: int
    most: int
    right: bool = False


def device_lines(
    devices: Sequence[DeviceParts], width: int, chosen: int | None
) -> DeviceArea | None:
    """A line for each device under a line of titles; None if not even percentages fit."""
    for columns in _variants(devices):
        kept = _kept(columns, width - GUTTER)
        if _total(kept) <= width - GUTTER:
            return _drawn(kept, devices, width, chosen)
    return None


def _drawn(
    columns: Sequence[_Column], devices: Sequence[DeviceParts], width: int, chosen: int | None
) -> DeviceArea:
    rooms = _rooms(columns, width - GUTTER)
    titles = [
        (faint(column.title), room, column.right)
        for column, room in zip(columns, rooms, strict=True)
    ]
    lines = [row_line(titles, width)]
    for at, parts in enumerate(devices):
        cells = [
            (column.cell(parts, room), room, column.right)
            for column, room in zip(columns, rooms, strict=True)
        ]
        lines.append(pointed(row_line(cells, width), at == chosen))
    return DeviceArea(lines, [Place(at, at + 1) for at in range(len(devices))])


def pointed(line: Line, chosen: bool) -> Line:
    """The line with the cursor's sign before it; the bars keep their colours."""
    return (*ink(">" * GUTTER, Style.CURSOR), *line[1:]) if chosen else line


def _variants(devices: Sequence[DeviceParts]) -> Iterator[list[_Column]]:
    """From all that there is to say to percentages only."""
    for figures in (True, False):
        for bar in (SHORT_BAR + 1 + PERCENT, PERCENT):
            yield _columns(devices, figures, bar)


def _columns(devices: Sequence[DeviceParts], figures: bool, bar: int) -> list[_Column]:
    ids = short_ids((one.device.unique_id for one in devices), ID_ROOM)
    pairs = Pairs.of(
        devices[0].look.state.units, [pair for one in devices for pair in (one.dram, one.l1)]
    )
    said = pairs.width + 1 if figures else 0
    head = " used / capacity" if figures else ""

    def dram(one: DeviceParts, room: int) -> Line:
        return (
            *(pairs.line(*one.dram) if figures else ()),
            *_gap(figures),
            *one.dram_meter(room - said, alone=not figures),
        )

    def l1(one: DeviceParts, room: int) -> Line:
        return (
            *(pairs.line(*one.l1) if figures else ()),
            *_gap(figures),
            *one.l1_meter(room - said, alone=not figures),
        )

    span = span_text(devices[0].look)
    longest = said + LONG_BAR + 1 + PERCENT
    return [
        _fixed("ID", 0, devices, lambda one: ink(logical(one.device)), right=True),
        _fixed("BOARD", 1, devices, lambda one: ink(one.device.board or "N/A")),
        _fixed("UNIQUE ID", 7, devices, lambda one: faint(ids[one.device.unique_id])),
        _fixed("PCI", 2, devices, lambda one: faint(short_pci(one.device) or "N/A")),
        _Column(f"DRAM{head}", 0, dram, max(said + bar, 4), longest),
        _fixed("FREE / LARGEST", 8, devices, _free, right=True),
        _Column(f"L1{head}", 0, l1, max(said + bar, 4), longest),
        _fixed("CB resident/cached/demand", 6, devices, DeviceParts.circular, right=True),
        _fixed("KERNEL RING", 5, devices, DeviceParts.ring, right=True),
        _past(f"DRAM {span}", 4, DeviceParts.dram_past),
        _past(f"L1 {span}", 3, DeviceParts.l1_past),
    ]


def _past(title: str, rank: int, cell: Callable[[DeviceParts, int], Line]) -> _Column:
    return _Column(title, rank, cell, max(LEAST_PAST, len(title)), MOST_PAST)


def _gap(figures: bool) -> Line:
    return ink(" ") if figures else ()


def _free(one: DeviceParts) -> Line:
    dram = one.device.memory.dram
    return Pairs(one.look.state.units).line(dram.free, dram.largest_free)


def _fixed(
    title: str,
    rank: int,
    devices: Sequence[DeviceParts],
    cell: Callable[[DeviceParts], Line],
    right: bool = False,
) -> _Column:
    made = {one.device.unique_id: cell(one) for one in devices}
    room = max(len(title), *map(line_columns, made.values()))
    return _Column(title, rank, lambda one, _: made[one.device.unique_id], room, room, right)


def _kept(columns: Sequence[_Column], room: int) -> list[_Column]:
    kept = list(columns)
    for column in sorted(columns, key=lambda one: -one.rank):
        if column.rank == 0 or _total(kept) <= room:
            break
        kept.remove(column)
    return kept


def _total(columns: Sequence[_Column]) -> int:
    return sum(column.least for column in columns) + GAP * (len(columns) - 1)


def _rooms(columns: Sequence[_Column], room: int) -> list[int]:
    """The least of each, and an equal part of the rest for those that can be longer."""
    spare = room - _total(columns)
    growing = sum(column.most > column.least for column in columns)
    rooms = []
    for column in columns:
        more = (
            min(spare // growing, column.most - column.least) if column.most > column.least else 0
        )
        growing -= column.most > column.least
        spare -= more
        rooms.append(column.least + more)
    return rooms
