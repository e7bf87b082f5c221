"""Devices as blocks of lines, or as sentences: in `ttmem ps` and on the monitor's Overview.

Amounts have a fixed width, so that nothing moves while numbers change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import zip_longest
from operator import itemgetter
from typing import NamedTuple

from ttmem.snapshots import CircularBuffers, Device
from ttmem.views.figures import (
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
    faint,
    flow,
    indent,
    ink,
    joined,
    line_columns,
    pad,
)
from ttmem.views.meter import PERCENT, level, percentage
from ttmem.views.names import DeviceNames, board, logical, model, short_ids, short_pci
from ttmem.views.table import GAP, GUTTER, Column, Table

LARGEST = "largest free"
WITHOUT_CBS = ("largest free without CBs", "largest w/o CBs")  # L1's allocator ignores CBs
LEAST_TREND, MOST_TREND = 4, 60
MANY = 8  # devices: then two lines each, even if a narrow window would need three
LEAST_BAR, SHORT_BAR, MOST_BAR = 4, 6, 40
USED = "used / capacity"

Trend = Callable[[Device, Kind, int], Line]  # a sparkline of that many columns


class ClickArea(NamedTuple):
    """The clickable area of a device: columns `start` to `stop` of a line (None: to its end)."""

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
    names: DeviceNames
    units: Units = Units.BINARY
    ascii: bool = False
    chosen: int | None = None  # the device under the cursor
    # With it, largest free blocks and trends are shown; without, details.
    trend: Trend | None = None
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
    """Which number of circular buffers is part of L1 used: 'cached', 'resident', 'demand', 'mixed', or ''."""
    if not cb.used:
        return ""
    if cb.cached is not None:
        return "cached"
    if cb.demand is None and cb.used == cb.resident:
        return "resident"
    return "demand" if cb.used == cb.demand else "mixed"


def requested_text(device: Device, units: Units) -> str | None:
    """Requested bytes, where lock-step allocation reserved more."""
    dram = device.memory.dram
    return units.text(dram.requested) if dram.requested != dram.held else None


def trace_text(device: Device, units: Units) -> str | None:
    """'22.5 MiB / 64.0 MiB'; None without a trace and a trace region."""
    trace = device.memory.trace
    if not trace.held and not trace.capacity:
        return None
    limit = "" if trace.capacity is None else f" / {units.text(trace.capacity)}"
    return units.text(trace.held) + limit


def _dram_details(device: Device, units: Units) -> list[Line]:
    """'requested 4.4 GiB', 'TRACE 22.5 MiB / 64.0 MiB'."""
    texts = (("requested", requested_text(device, units)), ("TRACE", trace_text(device, units)))
    return [fact(label, text) for label, text in texts if text is not None]


def _l1_details(device: Device, units: Units) -> list[Line]:
    """'= L1 2.2 MiB', '+ L1_SMALL 0 B', '+ CB 29.8 MiB cached'."""
    memory = device.memory
    return [
        fact("= L1", units.text(memory.l1.held)),
        fact("+ L1_SMALL", units.text(memory.l1_small.held)),
        fact("+ CB", f"{units.text(memory.cb.used)} {cb_measure(memory.cb)}".rstrip()),
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
    """Two lines for each device, or more with details of a few; None if the window is too narrow."""
    width, pairs = sheet.width, sheet.pairs
    name = NARROW_NAME if width < 100 else NAME_WIDTH if width < 150 else WIDE_NAME_WIDTH
    both = width - GUTTER - sheet.number - name - 3 * GAP
    if both // 2 < pairs.width + 1 + LEAST_BAR + 1 + PERCENT:
        return None
    dram, l1 = _memories(sheet, pairs, both // 2)
    columns = [Column("", itemgetter(at), right=at == 0) for at in range(4)]
    grid = Table(columns, (), GAP, (sheet.number, name, dram.space, l1.space))
    lines = [grid.listed((faint("ID"), faint("DEVICE"), dram.head, l1.head), width)]
    ids = short_ids((one.unique_id for one in sheet.devices), name)
    slots = Counter(one.pci for one in sheet.devices)  # chips of one board share theirs
    places: list[ClickArea] = []
    dense = len(sheet.devices) > MANY and sheet.trend is None
    for at, one in enumerate(sheet.devices):
        names = _names(one, ids[one.unique_id], name, slots[one.pci] == 1)
        blocks = (
            [ink(logical(one))],
            names[: 2 if sheet.trend else None],
            dram.lines(one),
            l1.lines(one),
        )
        rows = [grid.listed(row, width) for row in zip_longest(*blocks, fillvalue=EMPTY)]
        if dense and len(rows) > 2:
            details = _details_line(one, sheet.units, both + GAP)
            if details is None or len(names) > 2:
                return None
            below = Table(columns[:3], (), GAP, (sheet.number, name, both + GAP))
            rows[1:] = [below.listed((EMPTY, names[1], details), width)]
        rows[0] = sheet.pointed(rows[0], at)
        places += [ClickArea(at, len(lines) + row) for row in range(len(rows))]
        lines += rows
    return DeviceArea(lines, places)


def _details_line(device: Device, units: Units, space: int) -> Line | None:
    """Those of both memories in one line, L1's to the right; None if they do not fit."""
    dram = joined(_dram_details(device, units), "  ")
    l1 = joined(_l1_details(device, units), " ")
    gap = space - line_columns(dram) - line_columns(l1)
    return (*dram, *ink(" " * gap), *l1) if gap >= (GAP if dram else 0) else None


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


def device_sentences(sheet: Sheet) -> list[Line]:
    """The same for narrow windows: sentences instead of columns."""
    lines: list[Line] = []
    for device in sheet.devices:
        by = len(logical(device)) + 2
        space = sheet.width - by
        names = [ink(model(device)), faint(device.unique_id), faint(short_pci(device) or "")]
        facts = [
            _sentence("DRAM", dram_use(device), sheet.units),
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
