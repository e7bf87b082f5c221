"""The chip as its grid, and the address map of the chosen core."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import zip_longest
from typing import NamedTuple, TypeVar

from ttmem.snapshots import Device
from ttmem.snapshots.rows import Core
from ttmem.views.figures import Units
from ttmem.views.ink import EMPTY, Line, Span, Style, clip_line, faint, indent, ink, pad
from ttmem.views.meter import ALARM_AT, WARN_AT, level, percentage
from ttmem.views.monitor.live_data import chosen_names
from ttmem.views.monitor.pages.core_data import (
    MARK,
    SUMS_ONLY,
    Owned,
    Pressure,
    Unknown,
    core_size,
    grid_of,
    owned,
    pressure,
)
from ttmem.views.monitor.pages.core_map import LEAST_TITLED, CoreMap, core_map, rows, strip
from ttmem.views.monitor.pages.rows import device_title, fact_lines, is_blind, sentence, sums_only
from ttmem.views.monitor.state import Drawn, Look, MonitorState, Page, Target, terms
from ttmem.views.names import pids_text

T = TypeVar("T")
_CLOSE = 32 * 1024  # bytes; a few more tiles in one circular buffer, and programs fail


def core_lines(core: Core, found: Pressure | None, own: Owned | None, look: Look) -> list[Line]:
    """' core 3,4  378.0 KiB of 1,427.3 KiB L1  26%  fullest 0,0 61%', and remarks."""
    units = look.state.units
    facts = [ink(f"core {core[0]},{core[1]}", Style.TITLE)]
    if found is None:
        facts.append(faint("L1 in use N/A"))
    else:
        used, most = found.used(core), found.fullest()
        facts += [
            (*ink(core_size(units, used)), *faint(f" of {core_size(units, found.capacity)} L1")),
            ink(percentage(used, found.capacity), level(used, found.capacity)),
            (
                *faint("fullest "),
                *ink(f"{most[0]},{most[1]} {percentage(found.used(most), found.capacity)}"),
            ),
        ]
    if own is not None:
        facts.append((*faint(f"{MARK} {own.who} "), *ink(core_size(units, own.size))))
    if found is not None and found.processes(core) > 1:
        shared = f"{found.processes(core)} processes share addresses; the Overview counts them separately: "
        facts.append((*faint(shared), *ink(core_size(units, found.added_up(core)))))
    return fact_lines(facts, look, look.height)


def clash_line(found: CoreMap, units: Units) -> Line:
    """The distance between circular buffers and L1 buffers, or that they overlap."""
    distance = found.distance
    if distance is None:
        return (*faint(" to a clash "), *faint("N/A"))
    far = core_size(units, abs(distance))
    cached, top, lowest = found.highest_cb, found.top, found.lowest_buffer
    if distance < 0 and top is not None and lowest is not None:
        if found.running is None:
            text = f" cached CBs end at {top:#x}, {far} above the lowest buffer: legal while their programs do not run"
            return faint(text)
        text = f" OVERLAP of {far}: CBs end at {top:#x}, a buffer begins at {lowest:#x}"
        return ink(text, Style.ALARM)
    if top is None and lowest is None:
        return (*faint(" nothing allocated here: "), *ink(far), *faint(" free"))
    if top is None:
        return (
            *faint(" no circular buffers here: "),
            *ink(far),
            *faint(" below the lowest buffer"),
        )
    if lowest is None:
        return (*faint(" no L1 buffers: "), *ink(far), *faint(" above the circular buffers"))
    style = Style.WARN if distance < _CLOSE else Style.GOOD
    beyond = cached is not None and cached > top  # they run again, or are cleared
    ends = f"CBs end at {top:#x}, buffers begin at {lowest:#x}"
    if beyond:
        ends = f"CBs to {top:#x} (cached: {cached:#x}), buffers from {lowest:#x}"
    return (Span(" "), *ink(far, style), *faint(f" to a clash: {ends}"))


CELLS = (5, 3, 2)  # columns of a cell: ' 42% ', ' 42', ' 4'
MARGIN = 3  # the numbers of rows
_HEAT = (
    (ALARM_AT, Style.HEAT_4),
    (WARN_AT, Style.HEAT_3),
    (50, Style.HEAT_2),
    (1, Style.HEAT_1),
    (0, Style.HEAT_0),
)


class CoreGrid(NamedTuple):
    """What to draw; `pressure` is None where it is unknown: then the cells are empty."""

    grid: tuple[int, int]
    pressure: Pressure | None
    chosen: Core
    cell: int
    ascii: bool

    @property
    def width(self) -> int:
        return MARGIN + self.grid[0] * self.cell

    def draw(self, width: int, height: int, top: int) -> tuple[list[Line], list[Target]]:
        """At most so many columns and lines around the chosen core; `top` is the page's first line."""
        columns = _window(self.grid[0], self.chosen[0], (width - MARGIN) // self.cell)
        tall = 2 if self.cell == CELLS[0] and height > 2 * self.grid[1] else 1
        shown = _window(self.grid[1], self.chosen[1], (height - 1) // tall)
        lines = [self._axis(columns)] if height > 0 else []
        targets: list[Target] = []
        for y in shown:
            targets += [
                Target(top + len(lines) + each, partial(_choose, (x, y)), start, start + self.cell)
                for each in range(tall)
                for x, start in zip(columns, range(MARGIN, width, self.cell), strict=False)
            ]
            lines.append((*faint(f"{y:>2} "), *(self._cell((x, y)) for x in columns)))
            if tall == 2:
                lines.append((Span(" " * MARGIN), *(self._bar((x, y)) for x in columns)))
        if len(lines) + 1 < height and self.pressure is not None:
            tens = "8 is 80%" if self.cell == CELLS[-1] else "percent"
            lines += [EMPTY, faint(f" {tens} of L1 in use")]
        return lines, targets

    def _axis(self, columns: range) -> Line:
        names = (str(x if self.cell > CELLS[-1] else x % 10) for x in columns)
        return faint(" " * MARGIN + "".join(self._placed(name) for name in names))

    def _cell(self, core: Core) -> Span:
        text, style = "?", Style.FAINT
        if self.pressure is not None:
            used, space = self.pressure.used(core), self.pressure.capacity
            text, style = _sign(used, space, self.cell, self.ascii), heat(100 * used / space)
        if core == self.chosen:
            return Span(">" + self._placed(text)[1:], Style.CURSOR)
        return Span(self._placed(text), style)

    def _placed(self, text: str) -> str:
        """After the column of the cursor's sign; narrow cells have no space to the right."""
        return f" {text}".ljust(self.cell) if self.cell == CELLS[0] else text.rjust(self.cell)

    def _bar(self, core: Core) -> Span:
        """A line under the number, as long as the core is full."""
        if self.pressure is None:
            return Span(" " * self.cell)
        share = self.pressure.used(core) / self.pressure.capacity
        most = self.cell - 1
        length = min(max(round(most * share), 1 if share > 0 else 0), most)
        return Span(self._placed(("#" if self.ascii else "▀") * length), heat(100 * share))


def cell_width(columns: int, width: int, beside: int) -> int:
    """The widest cells that leave `beside` columns for the map."""
    fitting = [cell for cell in CELLS if MARGIN + columns * cell + 2 + beside <= width]
    return fitting[0] if fitting else CELLS[-1]


def heat(percent: float) -> Style:
    """From nothing to over 90 %."""
    return next((style for least, style in _HEAT if percent >= least), Style.HEAT_0)


def _choose(core: Core, state: MonitorState) -> None:
    state.core = core


def _sign(used: int, space: int, cell: int, ascii: bool) -> str:
    if used == 0:
        return "." if ascii else "·"
    whole = percentage(used, space)  # the same number as beside the grid
    if cell == CELLS[0]:
        return whole
    if whole == "over":
        return "!"
    if cell == CELLS[-1]:
        return str(min(round(100 * used / space), 99) // 10)
    return whole.strip(">%")


def _window(count: int, chosen: int, space: int) -> range:
    """As many of `count` as fit, including the selected one."""
    shown = max(min(count, space), 0)
    start = min(max(chosen - shown // 2, 0), count - shown)
    return range(start, start + shown)


LEAST_MAP = 36  # columns that a map needs beside the grid
GOOD_MAP = 50
AIRY = 18  # lines; from here on empty ones fit
_STEPS = {"left": (-1, 0), "right": (1, 0), "up": (0, -1), "down": (0, 1)}

HELP = terms("""
grid | the compute cores, x to the right, y down; each has one bank of L1
a cell | bytes in use over bytes that a core can allocate: addresses of L1 and L1_SMALL buffers, which take the same
    block in every bank, and addresses that cached programs have for circular buffers there. An address counts once,
    however many processes use it. A percentage, or its tens; '!' is more than there is
share addresses | processes take turns on a core, at the same addresses. Here an address counts once; L1 used on the
    Overview counts it for each process, so it may be more than the sum of these cells
pid 41235 +2 | of this process; two others have something at the same addresses
* pid | with --pid: what the chosen process has here; the map is of all processes
reserved | firmware, mailboxes and, where its base is not declared, the kernel ring
kernel ring | where kernel code and launch messages lie; below what can be allocated
CB, dataflow | of the program that ran last on this core, each at its address
cached | addresses that circular buffers of other live programs will use when they run again, with the program that
    reaches highest
free | no buffer and no circular buffer; between the two it is the way to a clash
buffers | live L1 buffers, lock-step: the same addresses on every core
L1_SMALL | its own region at the top, set aside when the device was opened
to a clash | lowest L1 buffer minus the end of the highest circular buffer of what ran last on this core; below 0 they
    overlap, and the runtime refuses the program that does it; cached programs that do not run may reach further
""")


class CoresPage(Page):
    name = "Cores"
    keys = (("arrows", "core"), ("m", "fullest core"))
    details = ("cores",)  # where circular buffers lie, and with them the L1 buffers
    help = HELP

    def draw(self, look: Look) -> Drawn:
        device = look.device
        if device is None:
            return Drawn([clip_line(faint(" no device has been reported yet"), look.width)])
        known = (look.snapshot.cores or {}).get(device.unique_id)
        title = device_title(device, look)
        if not known and (sources := sums_only(look.snapshot, device.unique_id)):
            why = (
                f"The cores are unknown: {', '.join(sources)} reports only totals. Start the program with"
                " `ttmem run -- python model.py` to see what is where in L1, core by core."
            )
            return Drawn(_fit([title, EMPTY, *sentence(why, look)], look))
        try:
            return _core_view(look, device, grid_of(device), title)
        except Unknown as why:
            return Drawn(
                _fit([title, EMPTY, *sentence(f"cores: N/A, {why}", look, Style.FAINT)], look)
            )

    def key(self, key: str, look: Look) -> str | None:
        device = look.device
        try:
            if device is None:
                return None
            grid = grid_of(device)
            x, y = _chosen(look.state, grid)
            if key in _STEPS:
                dx, dy = _STEPS[key]
                look.state.core = _inside((x + dx, y + dy), grid)
            elif key == "home":
                look.state.core = (0, 0)
            elif key == "end":
                look.state.core = (grid[0] - 1, grid[1] - 1)
            elif key == "m":
                look.state.core = pressure(look.snapshot, device).fullest()
        except Unknown:
            return None
        return None


def _core_view(look: Look, device: Device, grid: tuple[int, int], title: Line) -> Drawn:
    """The facts about the chosen core, the grid, and the map of that core beside or below it."""
    snapshot, units, core = look.snapshot, look.state.units, _chosen(look.state, grid)
    unknown: dict[str, list[str]] = {}  # by reason: the figures

    def known(what: str, get: Callable[[], T]) -> T | None:
        try:
            return get()
        except Unknown as why:
            unknown.setdefault(str(why), []).append(what)
            return None

    full = known("L1 in use", lambda: pressure(snapshot, device))
    found = known("address map", lambda: core_map(snapshot, device, core))
    for what, reason in found.unknown if found else ():
        unknown.setdefault(reason, []).append(what)
    own = known(chosen_names(look.pids), lambda: owned(snapshot, device, core, look.pids))

    facts = core_lines(core, full, own, look)
    lines = [title, *(facts if look.height >= AIRY else facts[:1])]
    if found is not None:
        lines.append(clash_line(found, units))
    here = (one for one in snapshot.processes if device.unique_id in one.devices)
    stock = [one.pid for one in here if is_blind(one.sources)]
    start = f"; start {pids_text(stock)} with `ttmem run` to see them" if stock else ""
    for why, figures in unknown.items():
        hint = start if why == SUMS_ONLY else ""
        lines += sentence(f"{', '.join(figures)}: N/A, {why}{hint}", look, Style.FAINT)
    if look.height >= AIRY:
        lines.append(EMPTY)

    space = max(look.height - len(lines), 0)
    drawing = CoreGrid(grid, full, core, cell_width(grid[0], look.width, GOOD_MAP), look.ascii)
    beside = look.width - drawing.width - 2
    if found is not None and beside < LEAST_MAP:
        space = min(space // 2, grid[1] + 1)
    cells, targets = drawing.draw(look.width, space, len(lines))
    if found is None:
        lines += cells
    elif beside >= LEAST_MAP:
        right = _map_lines(found, own, look, beside, space)
        for left, row in zip_longest(cells, right, fillvalue=EMPTY):
            lines.append((*pad(left, drawing.width + 2), *row))
    else:
        lines += cells
        below = max(look.height - len(lines), 0)
        lines += indent(_map_lines(found, own, look, look.width - 1, below), 1)
    return Drawn(_fit(lines, look), targets)


def _map_lines(found: CoreMap, own: Owned | None, look: Look, width: int, space: int) -> list[Line]:
    head = [strip(found, width, look.ascii)] if space > LEAST_TITLED else []
    left = max(space - len(head), 0)
    return [*head, *rows(found, left, width, look.state.units, look.ascii, own)]


def _chosen(state: MonitorState, grid: tuple[int, int]) -> Core:
    return _inside(state.core or (0, 0), grid)


def _inside(core: Core, grid: tuple[int, int]) -> Core:
    return (min(max(core[0], 0), grid[0] - 1), min(max(core[1], 0), grid[1] - 1))


def _fit(lines: Sequence[Line], look: Look) -> list[Line]:
    return [clip_line(line, look.width) for line in lines[: look.height]]
