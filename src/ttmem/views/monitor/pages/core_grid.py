"""The device as its grid of cores: how full each one is."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ttmem.snapshots.rows import Core
from ttmem.views.ink import (
    EMPTY,
    Line,
    Span,
    Style,
    faint,
)
from ttmem.views.meter import ALARM_AT, WARN_AT, percentage
from ttmem.views.monitor.pages.core_data import (
    Pressure,
)
from ttmem.views.monitor.state import MonitorState, Target

WIDTHS = (5, 3, 2)  # columns of a cell: ' 42% ', ' 42', ' 4'
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
        tall = 2 if self.cell == WIDTHS[0] and height > 2 * self.grid[1] else 1
        shown = _window(self.grid[1], self.chosen[1], (height - 1) // tall)
        lines = [self._axis(columns)] if height > 0 else []
        targets: list[Target] = []
        for y in shown:
            targets += [
                Target(top + len(lines) + each, choose((x, y)), start, start + self.cell)
                for each in range(tall)
                for x, start in zip(columns, range(MARGIN, width, self.cell), strict=False)
            ]
            lines.append((*faint(f"{y:>2} "), *(self._cell((x, y)) for x in columns)))
            if tall == 2:
                lines.append((Span(" " * MARGIN), *(self._bar((x, y)) for x in columns)))
        if len(lines) + 1 < height and self.pressure is not None:
            tens = "8 is 80%" if self.cell == WIDTHS[-1] else "percent"
            lines += [EMPTY, faint(f" {tens} of L1 in use")]
        return lines, targets

    def _axis(self, columns: range) -> Line:
        names = (str(x if self.cell > WIDTHS[-1] else x % 10) for x in columns)
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
        return f" {text}".ljust(self.cell) if self.cell == WIDTHS[0] else text.rjust(self.cell)

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
    fitting = [cell for cell in WIDTHS if MARGIN + columns * cell + 2 + beside <= width]
    return fitting[0] if fitting else WIDTHS[-1]


def heat(percent: float) -> Style:
    """From nothing to over 90 %."""
    return next((style for least, style in _HEAT if percent >= least), Style.HEAT_0)


def choose(core: Core) -> Callable[[MonitorState], str | None]:
    """What a click on a core does."""

    def act(state: MonitorState) -> str | None:
        state.core = core
        return None

    return act


def _sign(used: int, space: int, cell: int, ascii: bool) -> str:
    if used == 0:
        return "." if ascii else "·"
    whole = percentage(used, space)  # the same number as beside the grid
    if cell == WIDTHS[0]:
        return whole
    if whole == "over":
        return "!"
    if cell == WIDTHS[-1]:
        return str(min(round(100 * used / space), 99) // 10)
    return whole.strip(">%")


def _window(count: int, chosen: int, space: int) -> range:
    """As many of `count` as fit, including the selected one."""
    shown = max(min(count, space), 0)
    start = min(max(chosen - shown // 2, 0), count - shown)
    return range(start, start + shown)
