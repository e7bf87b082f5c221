"""All devices of the host, and who holds their memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from ttmem.views.monitor.device_area import Place
from ttmem.views.monitor.listing import Listing
from ttmem.views.monitor.overview_layout import OverviewLayout
from ttmem.views.monitor.page import Drawn, Look, Target
from ttmem.views.monitor.pages.overview_help import HELP
from ttmem.views.monitor.process_rows import FIRST, ProcessRow, process_columns, process_rows
from ttmem.views.monitor.state import State
from ttmem.views.table import NO_PROCESS

DEVICES = "Overview devices"  # its cursor: 0 on the chosen device, 1 in the table of processes
ON_DEVICE, IN_TABLE = 0, 1


class Overview:
    """Devices above, processes below; one cursor goes through both."""

    name = "Overview"
    keys = (("arrows", "choose"), ("enter", "deeper"), ("s", "sort"))

    def details(self, state: State) -> Sequence[str]:
        """Sums are enough."""
        return ()

    def draw(self, look: Look) -> Drawn:
        """Totals, what is wrong, devices, processes."""
        at = _device(look)
        rows = process_rows(look.snapshot)
        layout = OverviewLayout.of(look, rows, at)
        above = [*layout.top, *layout.devices.lines, *layout.between]
        listing = _table(look, rows)
        table = listing.draw(look.width, layout.table, len(above), look.ascii, lit=at is None)
        chosen = listing.chosen if at is None else None
        targets = [
            *(_device_target(place, look, len(layout.top), at) for place in layout.devices.places),
            *(_table_target(target, chosen) for target in table.targets),
        ]
        return Drawn([*above, *table.lines, *layout.below][: look.height], targets)

    def key(self, key: str, look: Look) -> str | None:
        """Arrows move the cursor, Enter goes to the device, or to the buffers of the process."""
        at = _device(look)
        rows = process_rows(look.snapshot)
        table = _table(look, rows)
        if key == "enter":
            return _deeper(at, table.chosen, look)
        layout = OverviewLayout.of(look, rows, at)
        if at is None or key in ("s", "S"):
            if key == "up" and look.state.of(self.name).cursor <= 0 and look.snapshot.devices:
                _choose(look.snapshot.devices[-1].unique_id, look.state)
            else:
                table.key(key, layout.table)
        else:
            _move(key, at, layout.devices.across, bool(table.rows), look)
        return None

    def help(self) -> Sequence[tuple[str, str]]:
        """Each figure, and how it is made."""
        return HELP


def _device(look: Look) -> int | None:
    """The device under the cursor, which is the one that all pages show; None: it is in the table."""
    if look.device is None or look.state.of(DEVICES).cursor == IN_TABLE:
        return None
    return look.snapshot.devices.index(look.device)


def _table(look: Look, rows: Sequence[ProcessRow]) -> Listing[ProcessRow]:
    columns = process_columns(look.state.units)
    return Listing(
        Overview.name, columns, rows, look.state, first=FIRST, empty=NO_PROCESS, noun="process"
    )


def _move(key: str, at: int, across: int, has_rows: bool, look: Look) -> None:
    last = len(look.snapshot.devices) - 1
    steps = {"up": -across, "down": across, "left": -1, "right": 1}
    ends = {"home": 0, "pageup": 0, "end": last, "pagedown": last}
    wanted = ends[key] if key in ends else at + steps.get(key, 0)
    leaves = key == "pagedown" or (key == "down" and at // across == last // across)
    if leaves and has_rows:
        look.state.of(DEVICES).cursor = IN_TABLE
        look.state.of(Overview.name).cursor = 0
    else:
        chosen = look.snapshot.devices[max(0, min(wanted, last))]
        _choose(chosen.unique_id, look.state)


def _deeper(device: int | None, process: ProcessRow | None, look: Look) -> str | None:
    if device is not None:
        return _show_device(look.snapshot.devices[device].unique_id, look.state)
    return None if process is None else _show_buffers(process.pid, look.state)


def _show_device(unique_id: str, state: State) -> str:
    _choose(unique_id, state)
    return "Device"


def _show_buffers(pid: int, state: State) -> str:
    state.filter = str(pid)
    return "Buffers"


def _device_target(place: Place, look: Look, top: int, chosen: int | None) -> Target:
    """A click on a device chooses it; on the chosen one it goes deeper."""
    if place.device == chosen:
        act = partial(_show_device, look.snapshot.devices[place.device].unique_id)
        return Target(top + place.line, act, place.start, place.stop)
    point = partial(_choose, look.snapshot.devices[place.device].unique_id)
    return Target(top + place.line, point, place.start, place.stop)


def _choose(unique_id: str, state: State) -> None:
    state.device = unique_id
    state.of(DEVICES).cursor = ON_DEVICE


def _table_target(target: Target, chosen: ProcessRow | None) -> Target:
    """A title sorts; a row takes the cursor, and the row that has it goes deeper."""
    if target.stop is not None:
        return target
    return replace(target, act=partial(_click_row, target, chosen))


def _click_row(target: Target, chosen: ProcessRow | None, state: State) -> str | None:
    before = state.of(Overview.name).cursor
    target.act(state)
    state.of(DEVICES).cursor = IN_TABLE
    same = chosen is not None and state.of(Overview.name).cursor == before
    return _show_buffers(chosen.pid, state) if chosen is not None and same else None
