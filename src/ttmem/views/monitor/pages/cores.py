"""The chip as its grid, and the address map of the chosen core."""

from __future__ import annotations

from collections.abc import Sequence

from ttmem.snapshots import Device
from ttmem.views.ink import EMPTY, Line, Style, clip_line, faint, indent, pad, paragraph
from ttmem.views.monitor.chosen_names import chosen_names
from ttmem.views.monitor.core_details import Core, Unknown
from ttmem.views.monitor.core_grid import CoreGrid, cell_width
from ttmem.views.monitor.core_map import CoreMap, core_map
from ttmem.views.monitor.core_owner import Owned, owned
from ttmem.views.monitor.core_pressure import Pressure, grid_of, pressure
from ttmem.views.monitor.core_rows import ROOM_FOR_TITLES, rows, strip
from ttmem.views.monitor.core_words import clash_line, core_lines
from ttmem.views.monitor.facts import device_title
from ttmem.views.monitor.page import Drawn, Look, Target
from ttmem.views.monitor.state import State

LEAST_MAP = 36  # columns that a map needs beside the grid
GOOD_MAP = 50
AIRY = 18  # lines; from here on there is room for empty ones
_STEPS = {"left": (-1, 0), "right": (1, 0), "up": (0, -1), "down": (0, 1)}

HELP = (
    ("grid", "the compute cores, x to the right, y down; each has one bank of L1"),
    (
        "a cell",
        "bytes in use over bytes that a core can allocate: addresses of L1 and L1_SMALL buffers, "
        "which take the same block in every bank, and addresses that cached programs have for "
        "circular buffers there. An address counts once, whoever uses it, as in the map. A "
        "percentage, or its tens; '!' is more than there is",
    ),
    (
        "added up as in L1 used",
        "processes take turns on a core, at the same addresses; L1 used counts what each of them "
        "has, so it may be more than what is in use here",
    ),
    ("pid 41235 +2", "of this process; two others have something at the same addresses"),
    ("* pid", "with --pid: what the chosen process has here; the map is of all processes"),
    ("reserved", "firmware, mailboxes and, where its base is not declared, the kernel ring"),
    ("kernel ring", "where kernel code and launch messages lie; below what can be allocated"),
    ("CB, dataflow", "of the program that ran last on this core, each at its address"),
    (
        "cached",
        "addresses that circular buffers of other live programs will use when they run again, with the "
        "program that reaches highest",
    ),
    ("free", "no buffer and no circular buffer; between the two it is the way to a clash"),
    ("buffers", "live L1 buffers, lock-step: the same addresses on every core"),
    ("L1_SMALL", "its own region at the top, set aside when the device was opened"),
    (
        "to a clash",
        "lowest L1 buffer minus the end of the highest circular buffer on this core; "
        "below 0 they overlap, and the runtime refuses the program that does it",
    ),
)


class Cores:
    """View 3."""

    name = "Cores"
    keys: Sequence[tuple[str, str]] = (("arrows", "core"), ("m", "fullest core"))

    def details(self, state: State) -> Sequence[str]:
        """Where circular buffers lie, and with them the L1 buffers."""
        return ("cores",)

    def draw(self, look: Look) -> Drawn:
        """Title, figures of the chosen core, grid and map side by side, or one above the other."""
        device = look.device
        if device is None:
            return Drawn([clip_line(faint(" no device has been reported yet"), look.width)])
        lines: list[Line] = [device_title(device, look)]
        try:
            grid = grid_of(device)
        except Unknown as why:
            return Drawn(_fit([*lines, EMPTY, *_reason("cores", str(why), look.width)], look))
        return _Picture(look, device, grid, lines).drawn()

    def key(self, key: str, look: Look) -> str | None:
        """Arrows, Home and End move; m goes to the fullest core."""
        device = look.device
        try:
            grid = grid_of(device) if device is not None else None
            if device is None or grid is None:
                return None
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

    def help(self) -> Sequence[tuple[str, str]]:
        """Each sign and number."""
        return HELP


class _Picture:
    def __init__(
        self, look: Look, device: Device, grid: tuple[int, int], lines: list[Line]
    ) -> None:
        self._look = look
        self._lines = lines
        self._targets: list[Target] = []
        self._core = _chosen(look.state, grid)
        self._reasons: list[Line] = []
        self._pressure: Pressure | None = None
        self._map: CoreMap | None = None
        self._own: Owned | None = None
        try:
            self._pressure = pressure(look.snapshot, device)
        except Unknown as why:
            self._reasons += _reason("L1 in use", str(why), look.width)
        try:
            self._map = core_map(look.snapshot, device, self._core)
            for remark in self._map.remarks:
                self._reasons += indent(paragraph(remark, look.width - 1, Style.FAINT), 1)
        except Unknown as why:
            self._reasons += _reason("address map", str(why), look.width)
        try:
            self._own = owned(look.snapshot, device, self._core, look.pids)
        except Unknown as why:
            self._reasons += _reason(chosen_names(look.pids), str(why), look.width)
        cell = cell_width(grid[0], look.width, GOOD_MAP)
        self._grid = CoreGrid(grid, self._pressure, self._core, cell, look.ascii)

    def drawn(self) -> Drawn:
        look = self._look
        units = look.state.units
        words = core_lines(self._core, self._pressure, self._own, units, look.width)
        self._lines += words if look.height >= AIRY else words[:1]
        if self._map is not None:
            self._lines.append(clash_line(self._map, units))
        self._lines += self._reasons
        if look.height >= AIRY:
            self._lines.append(EMPTY)
        room = max(look.height - len(self._lines), 0)
        beside = look.width - self._grid.width - 2
        if self._map is None:
            self._add_grid(look.width, room)
        elif beside >= LEAST_MAP:
            self._add_both(beside, room)
        else:
            self._add_grid(look.width, min(room // 2, self._grid.grid[1] + 1))
            left = max(look.height - len(self._lines), 0)
            self._lines += indent(self._map_lines(self._map, look.width - 1, left), 1)
        return Drawn(_fit(self._lines, look), self._targets)

    def _add_grid(self, width: int, room: int) -> None:
        drawn, targets = self._grid.draw(width, room, len(self._lines))
        self._lines += drawn
        self._targets += targets

    def _add_both(self, beside: int, room: int) -> None:
        left = self._grid.width
        drawn, targets = self._grid.draw(left, room, len(self._lines))
        right = self._map_lines(self._map, beside, room) if self._map else []
        for at in range(max(len(drawn), len(right))):
            cells = drawn[at] if at < len(drawn) else EMPTY
            row = right[at] if at < len(right) else EMPTY
            self._lines.append((*pad(cells, left + 2), *row))
        self._targets += targets

    def _map_lines(self, found: CoreMap, width: int, room: int) -> list[Line]:
        ascii, units = self._look.ascii, self._look.state.units
        head = [strip(found, width, ascii)] if room > ROOM_FOR_TITLES else []
        return [*head, *rows(found, max(room - len(head), 0), width, units, ascii, self._own)]


def _chosen(state: State, grid: tuple[int, int]) -> Core:
    return _inside(state.core or (0, 0), grid)


def _inside(core: Core, grid: tuple[int, int]) -> Core:
    return (min(max(core[0], 0), grid[0] - 1), min(max(core[1], 0), grid[1] - 1))


def _reason(what: str, why: str, width: int) -> list[Line]:
    text = f"{what}: N/A, {why}"
    return indent([*paragraph(text, max(width - 1, 1), Style.FAINT)], 1)


def _fit(lines: Sequence[Line], look: Look) -> list[Line]:
    return [clip_line(line, look.width) for line in lines[: look.height]]
