"""What every monitor has: a frame around pages, the keys that work on all of them, and the help."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from datetime import tzinfo
from typing import Any

from ttmem.snapshots import Snapshot
from ttmem.views.ink import Line, Span
from ttmem.views.monitor.frame import ScreenFrame, Status
from ttmem.views.monitor.help import HelpScreen
from ttmem.views.monitor.listing import MOVES
from ttmem.views.monitor.live_data import Reading
from ttmem.views.monitor.state import (
    INTERVALS,
    Drawn,
    MonitorState,
    Target,
    next_units,
    other_interval,
    type_filter,
)
from ttmem.views.terminal import plain_signs

MOST_FAULTS = 20


class MonitorScreen(ABC):
    """Keys and clicks that fail cannot end it: what happened is said on the screen, and logged once."""

    fastest = INTERVALS[0]  # seconds between two readings

    def __init__(
        self,
        tabs: Sequence[str],
        interval: float,
        page: int,
        zone: tzinfo | None,
        ascii_only: bool,
        paper: bool,
    ) -> None:
        self.state = MonitorState(page=page)
        self.interval = interval
        self.dark = True
        self.done = False
        self.typing = False  # the filter
        self.faults: dict[str, None] = {}  # printed at the end
        self._tabs = tabs
        self._zone = zone
        self._ascii = ascii_only
        self._paper = paper  # printed once: no keys
        self._help = HelpScreen()
        self._drawn = Drawn([])
        self._fault = ""  # the last of them, until the next key

    # -- what is read ------------------------------------------------------------------------------

    @abstractmethod
    def wish(self) -> object:
        """What the next reading is for; if it changes, one is made at once."""

    @abstractmethod
    def take(self, readings: Iterable[Reading[Any, Any]]) -> None:
        """What has been read, oldest first."""

    def tick(self) -> None:  # noqa: B027  only a recording moves
        """Moves what moves by itself."""

    # -- what is shown -----------------------------------------------------------------------------

    def screen(self, width: int, height: int) -> list[Line]:
        keys = () if self._paper else self._keys()
        frame = ScreenFrame(
            self._status(width), self.state, self._snapshot(), self._tabs, keys,
            width, height, self._zone, self._ascii,
        )  # fmt: skip
        self._drawn = frame.around(self._help_page if self._help.open else self._body)
        if self._ascii:
            return [_in_ascii(line) for line in self._drawn.lines]
        return self._drawn.lines

    def _help_page(self, width: int, height: int) -> Drawn:
        return self._help.draw(self._help_lines(width), height)

    def _snapshot(self) -> Snapshot | None:
        """Of one host."""
        return None

    @abstractmethod
    def _status(self, width: int) -> Status: ...

    @abstractmethod
    def _keys(self) -> Sequence[tuple[str, str]]:
        """Those in the last line."""

    @abstractmethod
    def _help_lines(self, width: int) -> list[Line]: ...

    @abstractmethod
    def _body(self, width: int, height: int) -> Drawn: ...

    # -- keys and clicks ---------------------------------------------------------------------------

    def press(self, key: str) -> None:
        """A key by its sign ('a', '/', '1') or its name ('up', 'space', 'shift+tab')."""
        self._try(f"the key {key!r}", lambda: self._press(key))

    def click(self, column: int, line: int) -> None:
        """The mouse on a cell of the screen."""
        self._try("a click", lambda: self._click(column, line))

    def _try(self, what: str, act: Callable[[], None]) -> None:
        self._fault = ""
        try:
            act()
        except Exception as trouble:
            page = self._tabs[self.state.page]
            self._fault = self._note_fault(f"{what} on the page {page}", trouble)

    def _note_fault(self, what: str, trouble: Exception) -> str:
        """Logs it once, with its traceback; returns the sentence for the screen."""
        from traceback import format_exception

        sentence = f"{what} failed ({type(trouble).__name__}: {trouble})"
        if len(self.faults) < MOST_FAULTS:
            log = f"{sentence}; please report it\n{''.join(format_exception(trouble))}"
            self.faults[log] = None
        return sentence

    def _press(self, key: str) -> None:
        if key == "ctrl+c":
            self.done = True
        elif self.typing and key not in MOVES:
            self.typing = type_filter(self.state, key)
        elif self._press_time(key):
            pass
        elif self._help.open and key not in ("q", "d"):
            self._help.press(key)
        elif key.isdecimal() and len(key) == 1:
            if 0 < int(key) <= len(self._tabs):
                self._turn_to(int(key) - 1)
        elif not self._act(key):
            self._press_page(key)

    def _press_time(self, key: str) -> bool:
        """Whether it is a key of the time bar."""
        return False

    def _act(self, key: str) -> bool:
        """A key of every page; False if it is not one."""
        match key:
            case "q":
                self.done = True
            case "h" | "?":
                self._help.open = True
            case "/":
                self.typing = True
            case "d":
                self.dark = not self.dark
            case "u":
                next_units(self.state)
            case "+" | "=" | "-":  # plus without Shift
                other = other_interval(self.interval, 1 if key == "-" else -1)
                self.interval = max(other, self.fastest)
            case "escape":
                self._go_back()
            case _:
                return False
        return True

    def _click(self, column: int, line: int) -> None:
        for target in self._drawn.targets:
            if target.hit(column, line):
                self._help.open = False
                self._follow(target)
                return

    @abstractmethod
    def _press_page(self, key: str) -> None:
        """Any other key."""

    @abstractmethod
    def _turn_to(self, page: int) -> None:
        """A digit."""

    @abstractmethod
    def _go_back(self) -> None: ...

    @abstractmethod
    def _follow(self, target: Target) -> None:
        """A click on it."""


def _in_ascii(line: Line) -> Line:
    return tuple(Span(plain_signs(span.text), span.style) for span in line)
