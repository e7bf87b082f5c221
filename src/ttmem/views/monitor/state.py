"""What the user has chosen, and what a page is: lines made from that and a snapshot."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo
from typing import NamedTuple, TypeVar

from ttmem.snapshots import Device, Snapshot
from ttmem.views.figures import Units
from ttmem.views.ink import Line
from ttmem.views.names import DeviceNames

INTERVALS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)  # seconds
SPANS = (60, 300, 900, 3600)  # seconds of history that a chart shows at most
# While there is no more history than that, charts show only so many seconds.
SHORTER = (10, 20, 30, 60, 120, 180, 300, 600, 900, 1800)

Choice = TypeVar("Choice")


@dataclass(slots=True)
class PageState:
    cursor: int = 0  # the chosen row; a page clamps it to what is there
    top: int = 0  # the first visible row
    sort: int = 0  # index into the page's sort columns
    reverse: bool = False


@dataclass(slots=True)
class MonitorState:
    page: int = 0  # index into PAGES
    device: str | None = (
        None  # unique id that the Device, Cores and Kernels pages show; None: the first
    )
    core: tuple[int, int] | None = None  # chosen core (x, y)
    filter: str = ""
    units: Units = Units.BINARY
    span: int = SPANS[1]
    paused: bool = False
    pages: dict[str, PageState] = field(default_factory=dict)

    def of(self, page: str) -> PageState:
        return self.pages.setdefault(page, PageState())


def step(choices: Sequence[Choice], at: int, by: int) -> Choice:
    """The choice so many places further; there is none before the first or after the last."""
    return choices[max(0, min(at + by, len(choices) - 1))]


def next_units(state: MonitorState) -> None:
    """KiB/MiB/GiB, MiB, bytes, and round again."""
    every = list(Units)
    state.units = every[(every.index(state.units) + 1) % len(every)]


def change_span(state: MonitorState, by: int) -> None:
    """More or less history in charts."""
    state.span = step(SPANS, SPANS.index(state.span), by)


def change_device(state: MonitorState, ids: Sequence[str], by: int) -> None:
    """The next of these devices; after the last comes the first."""
    if ids:
        at = ids.index(state.device) if state.device in ids else 0
        state.device = ids[(at + by) % len(ids)]


def other_interval(interval: float, by: int) -> float:
    """The next of INTERVALS."""
    nearest = min(range(len(INTERVALS)), key=lambda at: abs(INTERVALS[at] - interval))
    return step(INTERVALS, nearest, by)


def type_filter(state: MonitorState, key: str) -> bool:
    """A key typed into the filter; False if that ended the typing (Enter keeps it, Esc clears it)."""
    if key == "escape":
        state.filter = ""
    elif key == "backspace":
        state.filter = state.filter[:-1]
    elif key == "space":
        state.filter += " "
    elif len(key) == 1 and key.isprintable():
        state.filter += key
    return key not in ("escape", "enter")


def terms(text: str) -> tuple[tuple[str, str], ...]:
    """Terms and what they mean, from lines 'term | meaning'; a line that is indented continues the one before."""
    entries = text.strip().replace("\n    ", " ").splitlines()
    return tuple(
        (term, meaning) for term, _, meaning in (line.partition(" | ") for line in entries)
    )


Series = Mapping[str, Sequence[int]]  # 'time_ns', 'dram', 'l1', ... as columns, oldest first


class Look(NamedTuple):
    """Everything that a page is drawn from."""

    snapshot: Snapshot  # in order, narrowed to --devices and --pid; with the page's details
    history: Mapping[str, Series]  # by unique id, one sample a second, an hour at most
    state: MonitorState
    width: int  # columns and lines of the page, without the frame around it
    height: int
    zone: tzinfo | None = None  # of times on screen; None is local
    ascii: bool = False  # the terminal has no block or Braille signs
    pids: tuple[int, ...] = ()  # of --pid: lists are of these, figures of devices are of all
    sensors: Mapping[str, Mapping[str, Series]] = {}  # by sensor, then by unique id

    @property
    def span(self) -> int:
        """Seconds that charts show: what the user chose, or less while there is less history."""
        first = min((times[0] for s in self.history.values() if (times := s["time_ns"])), default=0)
        there = (self.snapshot.time_ns - first) // 1_000_000_000
        steps = [step for step in SHORTER if there <= step < self.state.span]
        return steps[0] if steps else self.state.span

    @property
    def names(self) -> DeviceNames:
        """What the devices are called on every page."""
        return DeviceNames.of(self.snapshot)

    @property
    def device(self) -> Device | None:
        chosen = [d for d in self.snapshot.devices if d.unique_id == self.state.device]
        return next(iter([*chosen, *self.snapshot.devices]), None)


class Drawn(NamedTuple):
    """A page's lines, at most `height` of them, none wider than `width`.

    `targets`: what a click on a line, or on columns of it, does. A target changes the state and
    returns the name of the page to go to, or None to stay.
    """

    lines: list[Line]
    targets: Sequence[Target] = ()


class Target(NamedTuple):
    """A piece of a line that can be clicked: columns `start` to `stop` (None: to the end)."""

    line: int
    act: Callable[[MonitorState], str | None]
    start: int = 0
    stop: int | None = None

    def hit(self, column: int, line: int) -> bool:
        return (
            self.line == line and self.start <= column and (self.stop is None or column < self.stop)
        )


class Page(ABC):
    name: str  # what the tab says
    details: Sequence[str] = ()  # that it asks the feed for (`Feed.read`)
    help: Sequence[tuple[str, str]]  # each column or number, and how it is made

    @property
    @abstractmethod
    def keys(self) -> Sequence[tuple[str, str]]:
        """Its own, with what they do, for the footer."""

    @abstractmethod
    def draw(self, look: Look) -> Drawn:
        """Its lines."""

    @abstractmethod
    def key(self, key: str, look: Look) -> str | None:
        """A key that the frame has no use for ('up', 'down', 'pageup', 'home', 'enter', 's', ...).

        It changes `look.state` and returns the name of the page to go to, or None to stay.
        """

    def back(self) -> bool:
        """Esc: one step back within the page; False if there is none."""
        return False

    def watch(self, snapshot: Snapshot) -> None:  # noqa: B027  most have nothing to remember
        """Sees every snapshot, also while another page is shown."""
