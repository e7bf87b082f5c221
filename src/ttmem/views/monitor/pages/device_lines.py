"""What the Overview says of a device, and devices with one line for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from ttmem.snapshots import Device
from ttmem.views.ink import Line, Span, Style, faint, ink, line_columns, pad
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
    amount_fact,
    of_limit,
    stacked_meter,
)
from ttmem.views.monitor.listing import GAP, GUTTER, row_line
from ttmem.views.monitor.state import Look
from ttmem.views.names import age, logical, short_ids, short_pci


class Place(NamedTuple):
    """Where a device stands: columns `start` to `stop` of a line (None: to its end)."""

    device: int  # index into the snapshot's devices
    line: int
    start: int = 0
    stop: int | None = None


class DeviceArea(NamedTuple):
    """Devices on screen; `across` of them stand beside each other."""

    lines: list[Line]
    places: Sequence[Place] = ()
    across: int = 1


class DeviceParts(NamedTuple):
    """One device of a picture."""

    look: Look
    device: Device
    room: int = 0  # columns that each amount keeps, so that what follows stays where it is

    @property
    def dram(self) -> Pair:
        return self.device.memory.dram.held, self.device.memory.dram.capacity

    @property
    def l1(self) -> Pair:
        return self.device.l1_used, self.device.l1_capacity

    def dram_meter(self, room: int, alone: bool = False) -> Line:
        """Bar and percentage; `alone`: no capacity stands beside it, so it says if there is none."""
        dram, ascii = self.device.memory.dram, self.look.ascii
        part = (dram.held, DRAM.bar_sign(ascii), DRAM.style)
        if alone and dram.capacity is None:
            return faint("N/A".rjust(room))
        return stacked_meter((part,), dram.capacity, room, ascii)

    def l1_meter(self, room: int, alone: bool = False) -> Line:
        """Bar in three parts, and percentage."""
        ascii = self.look.ascii
        if alone and self.device.l1_capacity is None:
            return faint("N/A".rjust(room))
        parts = tuple((held, kind.bar_sign(ascii), kind.style) for kind, held in self._l1_parts)
        return stacked_meter(parts, self.device.l1_capacity, room, ascii)

    def legend(self) -> list[Line]:
        """What the three parts of the bar are, with their amounts."""
        return [
            (
                *ink(kind.bar_sign(self.look.ascii), kind.style),
                Span(" "),
                *self._amount(kind.title, held),
            )
            for kind, held in self._l1_parts
        ]

    def circular(self) -> Line:
        """'N/A / 29.8 MiB / 158.0 MiB': resident, cached, demand."""
        cb, units = self.device.memory.cb, self.look.state.units
        three = (amount(units, one) for one in (cb.resident, cb.cached, cb.demand))
        return _slashed([pad(one, self.room, right=True) for one in three])

    def circular_facts(self) -> list[Line]:
        """The same, each with its name."""
        cb = self.device.memory.cb
        named = (("CB resident", cb.resident), ("cached", cb.cached), ("demand", cb.demand))
        return [self._amount(label, count) for label, count in named]

    def ring_fact(self) -> Line:
        """'ring 2.0 MiB / 4.3 MiB'."""
        return pad((*faint("ring "), *self.ring()), len("ring  / ") + 2 * self.room)

    def ring_lines(self) -> list[Line]:
        """The same in two short lines."""
        ring, units = self.device.kernels.ring, self.look.state.units
        occupied = pad(amount(units, ring.occupied), self.room, right=True)
        capacity = pad(amount(units, ring.capacity), self.room, right=True)
        return [(*faint("ring "), *occupied), (*faint("  of "), *capacity)]

    def ring(self) -> Line:
        """The kernel-config ring: occupied / capacity."""
        ring = self.device.kernels.ring
        return of_limit(self.look.state.units, ring.occupied, ring.capacity)

    def dram_room(self) -> list[Line]:
        """Free DRAM and its largest block."""
        dram = self.device.memory.dram
        return [self._amount("free", dram.free), self._amount("largest", dram.largest_free)]

    def l1_room(self) -> list[Line]:
        """The same of L1 for buffers, whose allocator does not know of circular buffers: no room beside them."""
        l1 = self.device.memory.l1
        free = self._amount("if no CBs: free", l1.free)
        return [free, self._amount("largest", l1.largest_free)]

    def trace(self) -> Line:
        """'TRACE 22.5 MiB / 64.0 MiB'."""
        trace = self.device.memory.trace
        pair = Pairs(self.look.state.units, limit=self.room).line(trace.held, trace.capacity)
        return pad((*faint("TRACE "), *pair), len("TRACE  / ") + 2 * self.room)

    @property
    def has_trace(self) -> bool:
        """Is there a trace, or a region for it?"""
        trace = self.device.memory.trace
        return bool(trace.held or trace.capacity)

    def dram_past(self, room: int) -> Line:
        return self._past(DRAM, self.device.memory.dram.capacity, room)

    def l1_past(self, room: int) -> Line:
        return self._past(L1_USED, self.device.l1_capacity, room)

    def _past(self, kind: Kind, capacity: int | None, room: int) -> Line:
        series = self.look.history.get(self.device.unique_id, {})
        times, values = series.get("time_ns", ()), series.get(kind.series, ())
        # There is one sample a second: within a second, the past stays as it is.
        end_ns = self.look.snapshot.time_ns // SECOND * SECOND + SECOND - 1
        first = first_needed(times, end_ns, self.look.state.span)
        text = _sparkline(
            tuple(times[first:]),
            tuple(values[first:]),
            end_ns,
            self.look.state.span,
            room,
            capacity,
            self.look.ascii,
        )
        return (Span(text, kind.style),)

    @property
    def _l1_parts(self) -> tuple[tuple[Kind, int], ...]:
        memory = self.device.memory
        return (L1, memory.l1.held), (L1_SMALL, memory.l1_small.held), (CB, memory.cb.used)

    def _amount(self, label: str, count: int | None) -> Line:
        return pad(amount_fact(label, count, self.look), len(label) + 1 + self.room)


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


def span_text(look: Look) -> str:
    """'5 min': how much of the past is shown."""
    return age(look.state.span * SECOND)


def _slashed(lines: list[Line]) -> Line:
    out: list[Span] = []
    for line in lines:
        out += [*(faint(" / ") if out else ()), *line]
    return tuple(out)


SHORT_BAR = 6
LONG_BAR = 24
ID_ROOM = 13
LEAST_PAST, MOST_PAST = 8, 24


class _Column(NamedTuple):
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
