"""The device table, wide and narrow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from ttmem.sizes import human
from ttmem.snapshots import CircularBuffers, Device
from ttmem.views.ink import EMPTY, Line, Span, faint, flow, indent, ink, line_columns, pad
from ttmem.views.meter import PERCENT, level, meter, of_capacity, percentage
from ttmem.views.names import board, logical, model, short_ids, short_pci
from ttmem.views.table import GAP, Column, Table, beside

Figures = tuple[int, int | None]  # used, capacity
AMOUNT = len("896.0 KiB")  # room for any amount but '1000.0 MiB', which is rare


@dataclass(frozen=True, slots=True)
class Fact:
    """A label with an amount, and the columns it is given, whatever the amount is now."""

    line: Line
    takes: int


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """Texts and figures of one device."""

    number: str
    board: str
    model: str
    unique_id: str
    pci: str | None
    dram: Figures
    l1: Figures
    beside_dram: tuple[Fact, ...]
    l1_parts: tuple[Fact, ...]

    @property
    def pci_line(self) -> list[Line]:
        """The PCI address, if there is one."""
        return [faint(self.pci)] if self.pci else []

    @property
    def beside_room(self) -> int:
        """Columns to plan for what stands beside DRAM, on one line."""
        return _room(self.beside_dram, "  ")

    @property
    def parts_room(self) -> int:
        """Columns to plan for the parts of L1, on one line."""
        return _room(self.l1_parts, " ")

    def beside(self, room: int) -> list[Line]:
        """'requested 4.4 GiB  TRACE 22.5 MiB / 64.0 MiB': what else is to say of DRAM."""
        return flow([one.line for one in self.beside_dram], room)

    def parts(self, room: int) -> list[Line]:
        """'= L1 2.2 MiB + L1_SMALL 0 B + CB 29.8 MiB cached': what L1 used is made of."""
        return flow([one.line for one in self.l1_parts], room, " ")


def _room(facts: Sequence[Fact], gap: str) -> int:
    return sum(one.takes + len(gap) for one in facts) - len(gap) if facts else 0


def device_facts(device: Device) -> DeviceFacts:
    """The facts of a device."""
    return DeviceFacts(
        number=logical(device),
        board=board(device),
        model=model(device),
        unique_id=device.unique_id,
        pci=short_pci(device),
        dram=(device.memory.dram.held, device.memory.dram.capacity),
        l1=(device.l1_used, device.l1_capacity),
        beside_dram=_beside_dram(device),
        l1_parts=_l1_parts(device),
    )


def fact(label: str, value: str) -> Line:
    """'CB 29.8 MiB'."""
    return (*faint(f"{label} "), *ink(value))


def trace_text(device: Device) -> str | None:
    """'22.5 MiB / 64.0 MiB'; None where there is neither a trace nor a region for it."""
    trace = device.memory.trace
    if not trace.held and not trace.capacity:
        return None
    return human(trace.held) + ("" if trace.capacity is None else f" / {human(trace.capacity)}")


def requested_text(device: Device) -> str | None:
    """What was asked for, where lock-step allocation took more."""
    dram = device.memory.dram
    return human(dram.requested) if dram.requested != dram.held else None


def cb_measure(cb: CircularBuffers) -> str:
    """Which number stands in the L1 sum: 'cached', 'resident', 'demand', 'mixed' over processes, or ''."""
    if not cb.used:
        return ""
    if cb.cached is not None:
        return "cached"
    if cb.demand is None and cb.used == cb.resident:
        return "resident"
    return "demand" if cb.used == cb.demand else "mixed"


def _beside_dram(device: Device) -> tuple[Fact, ...]:
    texts = (("requested", requested_text(device)), ("TRACE", trace_text(device)))
    return tuple(_steady(label, text) for label, text in texts if text is not None)


def _l1_parts(device: Device) -> tuple[Fact, ...]:
    memory = device.memory
    circular = f"{human(memory.cb.used)} {cb_measure(memory.cb) or ' ' * len('cached')}"
    return (
        _steady("= L1", human(memory.l1.held)),
        _steady("+ L1_SMALL", human(memory.l1_small.held)),
        _steady("+ CB", circular),
    )


def _steady(label: str, text: str) -> Fact:
    """The amount at the beginning of the text is given the room of any amount."""
    growth = max(AMOUNT - len(" ".join(text.split()[:2])), 0)
    line = fact(label, text.rstrip())
    return Fact(line, len(label) + 1 + len(text) + growth)


LEAST_METER = 16  # '!! over capacity'
MOST_METER = 34


@dataclass(frozen=True, slots=True)
class DeviceSheet:
    """The facts of all devices, and how wide their figures are."""

    facts: Sequence[DeviceFacts]
    number: int
    used: int
    limit: int

    @classmethod
    def of(cls, devices: Sequence[Device]) -> DeviceSheet:
        """The sheet of these devices."""
        facts = [device_facts(device) for device in devices]
        figures = [pair for one in facts for pair in (one.dram, one.l1)]
        return cls(
            facts=facts,
            number=max(len("ID"), *(len(one.number) for one in facts)),
            used=max(AMOUNT, *(len(human(used)) for used, _ in figures)),
            limit=max(len(human(limit)) for _, limit in figures),
        )

    @property
    def cell(self) -> int:
        """Columns of 'used / capacity'."""
        return self.used + self.limit + 3

    def short_ids(self, room: int) -> dict[str, str]:
        """Unique ids in that room, if they stay different."""
        return short_ids((one.unique_id for one in self.facts), room)

    def numbered(self, one: DeviceFacts) -> list[Line]:
        """The logical id."""
        return [ink(one.number.rjust(self.number))]

    def metered(self, figures: Figures, room: int) -> Line:
        """'used / capacity', bar and percentage."""
        bar = min(room - self.cell - 1, MOST_METER)
        return (*of_capacity(*figures, self.used, self.limit), Span(" "), *meter(*figures, bar))


def widest(blocks: Sequence[Sequence[Line]]) -> int:
    """Columns of the widest line in any block."""
    return max((line_columns(line) for block in blocks for line in block), default=0)


def heads(titles: Sequence[str], rooms: Sequence[int]) -> list[Line]:
    """The line of titles."""
    return beside([[faint(title)] for title in titles], rooms)


DRAM, L1 = "DRAM used / capacity", "L1 used / capacity"  # the columns with bars
ID_ROOMS = (24, 15)
MEASURE = len(" cached")


def one_line(devices: Sequence[Device], width: int) -> list[Line]:
    """The table, or nothing if it does not fit."""
    for room in ID_ROOMS:
        grid = _grid(devices, room)
        bars = min((width - 1 - grid.width) // 2 - 1, MOST_METER)
        if bars >= LEAST_METER:
            return indent(_grid(devices, room, bars).lines(), 1)
    return []


def _grid(devices: Sequence[Device], id_room: int, bars: int = 0) -> Table:
    dram = [(device.memory.dram.held, device.memory.dram.capacity) for device in devices]
    short = short_ids((device.unique_id for device in devices), id_room)
    l1 = [(device.l1_used, device.l1_capacity) for device in devices]
    columns: list[tuple[Column, list[Line]]] = [
        (Column("ID", right=True), [ink(logical(device)) for device in devices]),
        (Column("DEVICE"), [ink(model(device)) for device in devices]),
        (Column("UNIQUE ID"), [faint(short[device.unique_id]) for device in devices]),
        (Column("PCI"), [faint(short_pci(device) or "N/A") for device in devices]),
        (Column(DRAM), _cells(dram, bars)),
        *_optional("REQUESTED", [requested_text(device) for device in devices]),
        *_optional("TRACE", [trace_text(device) for device in devices]),
        (Column(L1), _cells(l1, bars)),
        (_amount("L1"), [ink(human(device.memory.l1.held)) for device in devices]),
        (_amount("L1_SMALL"), [ink(human(d.memory.l1_small.held)) for d in devices]),
        (Column("CB       ", True, AMOUNT + MEASURE), [_circular(device) for device in devices]),
    ]
    rows = list(zip(*(cells for _, cells in columns), strict=True))
    return Table([column for column, _ in columns], rows)


def _cells(figures: Sequence[Figures], bars: int) -> list[Line]:
    used = max(AMOUNT, *(len(human(value)) for value, _ in figures))
    limit = max(len(human(value)) for _, value in figures)
    cells = [of_capacity(*pair, used, limit) for pair in figures]
    if not bars:
        return cells
    return [
        (*cell, Span(" "), *meter(*pair, bars)) for cell, pair in zip(cells, figures, strict=True)
    ]


def _amount(title: str) -> Column:
    return Column(title, right=True, least=AMOUNT)


def _circular(device: Device) -> Line:
    cb = device.memory.cb
    return (*ink(human(cb.used)), *faint(f" {cb_measure(cb)}".ljust(MEASURE)))


def _optional(title: str, texts: Sequence[str | None]) -> list[tuple[Column, list[Line]]]:
    if not any(texts):
        return []
    least = AMOUNT + max(len(text) - len(text.split(" / ")[0]) for text in texts if text)
    return [(Column(title, True, least), [ink(text) if text else EMPTY for text in texts])]


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
    return indent(Table(columns, rows, gap=1).lines(), 1)


def _board_and_id(one: DeviceFacts, short: dict[str, str]) -> Line:
    return (*ink(f"{one.board} "), *faint(short[one.unique_id]))


def _id_only(one: DeviceFacts, short: dict[str, str]) -> Line:
    return faint(short[one.unique_id])


def _no_name(one: DeviceFacts, short: dict[str, str]) -> Line:
    return EMPTY


def _short_grid(sheet: DeviceSheet, names: Sequence[Line], bar: int) -> Table:
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
    return Table(columns, rows)


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
