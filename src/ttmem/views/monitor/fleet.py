"""The monitor of many hosts, without a terminal: hosts, the fullest devices, one host."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from datetime import tzinfo
from typing import Any

from ttmem.fleet.rows import Fleet, FleetDevice, HostView
from ttmem.views.fleet import (
    NO_PROCESSES,
    NOT_RECORDED,
    device_columns,
    fleet_title,
    host_columns,
    host_facts,
    process_columns,
)
from ttmem.views.ink import EMPTY, Line, Style, faint, flow, ink, paragraph
from ttmem.views.monitor.frame import Status
from ttmem.views.monitor.help import entry_lines
from ttmem.views.monitor.listing import Listing
from ttmem.views.monitor.live_data import Reading
from ttmem.views.monitor.screen import MonitorScreen
from ttmem.views.monitor.state import Drawn, Target, terms

HOSTS, DEVICES, HOST = "Hosts", "Devices", "Host"
PAGES = (HOSTS, DEVICES, HOST)
KEYS = (
    ("q", "quit"),
    ("h", "help"),
    ("Enter", "opens the host"),
    ("Esc", "back"),
    ("/", "filter"),
    ("s S", "sort"),
    ("Tab", "processes"),
    ("u", "units"),
    ("+ -", "interval"),
    ("d", "light"),
)
HELP = terms("""
1 2 3 | hosts, the fullest devices of all hosts, one host
Enter | opens the host under the cursor; Esc goes back
Tab | on the page of a host: from its devices to its processes, and back
/ | filters rows by text; Enter keeps the filter, Esc clears it
s  S | sorts by the next column; S reverses the order
+  - | asks Prometheus more or less often
u | writes amounts as KiB/MiB/GiB, as MiB, or as bytes
d | dark or light
q | quits
state | worst first: hosts that do not answer, hosts where allocations failed in the last hour, then the fullest
stale | the last scrape of the host failed, it is no longer scraped, or its figures are more than 2 minutes old;
    its page shows the last ones
L1 fullest | the share of L1 in use on the device of the host where it is largest; DRAM fullest alike
to look at | what does not add up on the host; `ttmem ps` there says it in sentences
processes | live processes that use a device. The list needs exporters with --per-process
""")


class FleetMonitor(MonitorScreen):
    fastest = 1.0

    def __init__(
        self,
        source: str,
        *,
        interval: float,
        host: str | None = None,
        zone: tzinfo | None = None,
        ascii_only: bool = False,
        paper: bool = False,
    ) -> None:
        page = PAGES.index(HOST) if host else 0
        super().__init__(PAGES, interval, page, zone, ascii_only, paper)
        self._source = source
        self._host = host  # the one that is shown, or was
        self._fleet: Fleet | None = None
        self._view: HostView | None = None
        self._problem: str | None = None
        self._arrived: float | None = None
        self._beats = 0
        self._below = False  # the keys move the list of processes
        self._listing: Listing[Any] | None = None
        self._height = 1  # of that listing
        self._came_from = 0

    @property
    def _page(self) -> str:
        return PAGES[self.state.page]

    @property
    def host(self) -> str | None:
        """The host to ask for; None: all."""
        return self._host if self._page == HOST else None

    def wish(self) -> object:
        return self.host, self.interval

    def take(self, readings: Iterable[Reading[str | None, Fleet | HostView]]) -> None:
        for reading in readings:
            self._problem = reading.problem
            if reading.answer is not None:
                self._arrived, self._beats = reading.arrived, self._beats + 1
            if isinstance(reading.answer, Fleet):
                self._fleet = reading.answer
            elif reading.answer is not None:
                self._view = reading.answer

    # -- the screen --------------------------------------------------------------------------------

    def _status(self, width: int) -> Status:
        age = None if self._arrived is None else max(time.monotonic() - self._arrived, 0.0)
        return Status(
            self._source,
            self.interval,
            self._beats,
            age,
            self._problem,
            typing=self.typing,
            fault=self._fault,
        )

    def _keys(self) -> Sequence[tuple[str, str]]:
        return KEYS

    def _help_lines(self, width: int) -> list[Line]:
        return [line for term in HELP for line in entry_lines(*term, width)]

    def _body(self, width: int, height: int) -> Drawn:
        self._listing = None
        if self._page == HOST:
            return self._host_page(width, height)
        if self._fleet is None:
            return Drawn([] if self._problem else [faint(f" asking {self._source}")])
        above = flow([ink(" "), *fleet_title(self._fleet, self._zone)[1:-1]], width)
        if not self._fleet.recorded:
            above += paragraph(f" {NOT_RECORDED}", width, Style.FAINT)
        above = above[: max(height - 4, 0)]
        if self._page == DEVICES:
            return self._with_list(above, self._devices(self._fleet.worst), width, height)
        columns = host_columns(self._fleet.time_ns, self._zone, self.state.units)
        hosts = Listing(HOSTS, columns, self._fleet.hosts, self.state, noun="host")
        return self._with_list(above, hosts, width, height)

    def _devices(self, devices: Sequence[FleetDevice]) -> Listing[Any]:
        of_all = self._page == DEVICES
        columns = device_columns(self.state.units, with_host=of_all)
        return Listing(
            self._page,
            columns,
            devices,
            self.state,
            first=1 + of_all,
            empty="no device is in use",
            noun="device",
        )

    def _host_page(self, width: int, height: int) -> Drawn:
        view = self._view
        if self._host is None:
            return Drawn([faint(" choose a host on page 1, and press Enter")])
        if view is None or view.host.name.partition(":")[0] != self._host.partition(":")[0]:
            return Drawn([] if self._problem else [faint(f" asking for {self._host}")])
        above = flow([ink(" "), *host_facts(view, self._zone)], width)[: max(height - 6, 1)]
        space = height - len(above)
        devices = self._devices(view.devices)
        if view.processes is None:
            note = paragraph(f" {NO_PROCESSES}", width, Style.FAINT)[:2]
            part = self._with_list(above, devices, width, height - len(note) - 1)
            return Drawn([*part.lines, EMPTY, *note], part.targets)
        processes: Listing[Any] = Listing(
            "processes",
            process_columns(self.state.units),
            view.processes,
            self.state,
            first=2,
            empty="no process uses a device",
            noun="process",
        )
        low = min(len(view.processes) + 2, max(space // 2, 3))
        high = min(len(view.devices) + 2, space - low - 1)
        top = devices.draw(width, high, len(above), self._ascii, lit=not self._below)
        start = len(above) + len(top.lines) + 1
        bottom = processes.draw(width, height - start, start, self._ascii, lit=self._below)
        self._listing = processes if self._below else devices
        self._height = height - start if self._below else high
        return Drawn([*above, *top.lines, EMPTY, *bottom.lines], [*top.targets, *bottom.targets])

    def _with_list(self, above: list[Line], table: Listing[Any], width: int, height: int) -> Drawn:
        self._listing, self._height = table, height - len(above)
        drawn = table.draw(width, self._height, len(above), self._ascii)
        return Drawn([*above, *drawn.lines], drawn.targets)

    # -- keys and clicks ---------------------------------------------------------------------------

    def _press_page(self, key: str) -> None:
        if key == "enter":
            self._open()
        elif key in ("tab", "shift+tab"):
            self._below = not self._below and self._page == HOST
        elif self._listing is not None:
            self._listing.key(key, self._height)

    def _follow(self, target: Target) -> None:
        before = self._pointed()
        where = target.act(self.state)
        if where in PAGES:
            self._turn_to(PAGES.index(where))
        elif before == self._pointed() and target.stop is None:
            self._open()  # a second click on a row

    def _pointed(self) -> tuple[str, int]:
        return self._page, self.state.of(self._page).cursor

    def _open(self) -> None:
        row = self._listing.chosen if self._listing else None
        if self._page == HOST or row is None:
            return
        self._host = row.name if self._page == HOSTS else row.host
        self._view = None
        self._turn_to(PAGES.index(HOST))

    def _turn_to(self, page: int) -> None:
        if page != self.state.page:
            self._came_from = self.state.page
            self.state.page, self.state.filter = page, ""
        self._below = False

    def _go_back(self) -> None:
        if self.state.filter:
            self.state.filter = ""
        elif self._page == HOST:
            self._turn_to(0 if self._came_from == PAGES.index(HOST) else self._came_from)
        else:
            self._turn_to(0)
