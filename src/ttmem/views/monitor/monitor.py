"""The monitor without a terminal: what it shows, and what each key and click does."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import tzinfo
from typing import NamedTuple

from ttmem.views.ink import EMPTY, Line, Span, Style, clip_line, faint, ink, paragraph
from ttmem.views.monitor.frame import Frame, Status
from ttmem.views.monitor.help import BACK, FOOTER, HelpScreen, help_lines
from ttmem.views.monitor.listing import MOVES
from ttmem.views.monitor.state import (
    Drawn,
    Inner,
    Look,
    Page,
    State,
    Watcher,
    change_device,
    change_span,
    next_units,
    other_interval,
    type_filter,
)
from ttmem.views.monitor.timeline import LiveTimeline, Timeline
from ttmem.views.monitor.watch import Question, Watch, wanted
from ttmem.views.selection import NOTHING_RUNNING, TRY
from ttmem.views.terminal import plain_signs

MOST_FAULTS = 20
MOMENT = 0.3  # seconds; a page that waits no longer than this does not flicker
ONE_DEVICE = ("Device", "Cores", "Kernels")  # pages that show the details of one device only


class _CameFrom(NamedTuple):
    """Where the user came from, and the filters there and on arrival at the deeper page."""

    page: int
    filter: str
    arrived: str


class Monitor:
    """Pages, the user's choices and the watched feed; `screen` is what they look like."""

    def __init__(
        self,
        feed: Callable[[], str],
        watch: Watch,
        pages: Sequence[Page],
        *,
        interval: float = 1.0,
        page: int = 0,
        zone: tzinfo | None = None,
        ascii_only: bool = False,
        paper: bool = False,
        timeline: Timeline | None = None,
    ) -> None:
        self.state = State(page=page)
        self.interval = interval
        self.dark = True
        self.done = False
        self._feed = feed  # its name, which may change: a server came, or went
        self._watch = watch
        self._pages = pages
        self._watchers = [page for page in pages if isinstance(page, Watcher)]
        self._zone = zone
        self._ascii = ascii_only
        self._paper = paper  # printed once: no keys
        self.timeline = timeline  # of a recording; None: live
        self.notice = ""  # which instant of a recording was opened; until the user moves in time
        self.typing = False  # the filter
        self.faults: dict[str, None] = {}  # printed at the end
        self._fault = ""  # the last of them, until the next key
        self._help = HelpScreen()
        self._back: list[_CameFrom] = []
        self._drawn = Drawn([])
        self._look: Look | None = None
        self._body_before = Drawn([])
        self._asked_at: float | None = None  # since when the page has been waiting for its details

    @property
    def page(self) -> Page:
        return self._pages[self.state.page]

    @property
    def _ids(self) -> list[str]:
        shown = self._watch.shown
        return [device.unique_id for device in shown.snapshot.devices] if shown else []

    def question(self) -> Question:
        """What the feed should be asked for now."""
        return self._watch.question(self._wanted())

    def tick(self) -> None:
        """Moves a recording on while it plays."""
        if self.timeline is None:
            return
        if self._watch.problem is not None and not self.timeline.live:  # there is no such instant
            self._fault, self._watch.problem = self._watch.problem, None
            self.timeline.refuse()
        before = self.timeline.at
        self.timeline.tick(time.monotonic())
        if self.timeline.at != before and not self.timeline.playing:
            self._watch.forget_history()

    def _wanted(self) -> Question:
        return wanted(self.page.details, self._one_device())

    def _one_device(self) -> str | None:
        ids = self._ids
        if self.page.name not in ONE_DEVICE and len(ids) != 1:
            return None
        return self.state.device if self.state.device in ids else next(iter(ids), None)

    # -- the screen --------------------------------------------------------------------------------

    def screen(self, width: int, height: int) -> list[Line]:
        shown, watch = self._watch.shown, self._watch
        if shown is not None:
            for page in self._watchers:
                page.watch(shown.snapshot)
        frame = Frame(
            Status(
                self._feed(),
                self.interval,
                watch.beats,
                watch.age,
                watch.problem,
                shown.missing if shown else "",
                self.typing,
                watch.pids,
                self._fault,
                self.timeline.line(width, self._ascii) if self.timeline else (),
                self.notice,
                live=self.timeline is not None and self.timeline.live,
            ),
            self.state,
            shown.snapshot if shown else None,
            [page.name for page in self._pages],
            self._keys(),
            width,
            height,
            self._zone,
            self._ascii,
        )
        self._drawn = frame.around(self._help_page if self._help.open else self._body)
        if self._ascii:
            return [_in_ascii(line) for line in self._drawn.lines]
        return self._drawn.lines

    def _keys(self) -> Sequence[tuple[str, str]]:
        if self._paper:
            return ()
        if self.timeline is None:
            return (*FOOTER[:2], *self.page.keys, *FOOTER[2:])
        if self.timeline.live:
            return (*FOOTER[:2], *self.page.keys, *FOOTER[2:4], BACK, *FOOTER[4:])
        own = {key for key, _ in self.timeline.keys}
        others = [(key, does) for key, does in FOOTER[2:] if key not in own]
        return (*FOOTER[:2], *self.timeline.keys, *self.page.keys, *others)

    def _body(self, width: int, height: int) -> Drawn:
        shown = self._watch.shown
        self._look = None
        if shown is None:
            if self._watch.idle:
                return Drawn(idle_lines(width)[:height])
            waiting = "" if self._watch.problem else f" waiting for the {self._feed()}"
            return Drawn([faint(waiting)])
        if not shown.answers(self._wanted()):
            return self._in_between()
        self._asked_at = None
        self._look = Look(
            shown.snapshot,
            self._watch.history,
            self.state,
            width,
            height,
            self._zone,
            self._ascii,
            self._watch.pids,
            self._watch.sensors,
        )
        try:
            self._body_before = self.page.draw(self._look)
        except Exception as trouble:  # the other pages still work, and the terminal stays whole
            self._note_fault(f"the page {self.page.name}", trouble)
            self._body_before = Drawn(_apology(self.page.name, trouble, width))
        return self._body_before

    def _in_between(self) -> Drawn:
        """Until the feed has answered; for a short moment the screen stays as it was."""
        now = time.monotonic()
        self._asked_at = now if self._asked_at is None else self._asked_at
        if now - self._asked_at < MOMENT:
            return Drawn(self._body_before.lines)
        return Drawn([faint(" reading ...")])

    def _help_page(self, width: int, height: int) -> Drawn:
        shown = self._watch.shown
        snapshot = shown.snapshot if shown else None
        timeline = self.timeline
        time_keys = timeline.help if timeline else ()
        live = timeline is not None and timeline.live
        lines = help_lines(self._pages, self.state.page, snapshot, width, time_keys, live)
        return self._help.draw(lines, height)

    # -- keys and clicks ---------------------------------------------------------------------------

    def press(self, key: str) -> None:
        """A key by its sign ('a', '/', '1') or its name ('up', 'space', 'shift+tab')."""
        self._fault = ""
        try:
            self._press(key)
        except Exception as trouble:
            self._fault = self._note_fault(f"the key {key!r} on the page {self.page.name}", trouble)

    def _press(self, key: str) -> None:
        if key == "ctrl+c":
            self.done = True
        elif self.typing and key not in MOVES:
            self.typing = type_filter(self.state, key)
        elif self.timeline is not None and self._press_time(self.timeline, key):
            pass
        elif self._help.open and key not in ("q", "d"):
            self._help.press(key)
        elif key.isdecimal() and len(key) == 1:
            if 0 < int(key) <= len(self._pages):
                self._back.clear()
                self.state.page = int(key) - 1
        elif not self._act(key) and self._look is not None:
            before = self.state.filter
            self.go(self.page.key(key, self._look), before)

    def _press_time(self, timeline: Timeline, key: str) -> bool:
        before = timeline.at
        if self._help.open or self.state.paused:
            return False
        known = timeline.press(key, time.monotonic())
        if isinstance(timeline, LiveTimeline):
            self._fault = timeline.said
        if not known:
            return False
        if timeline.at != before or timeline.playing:
            self.notice = ""
        if timeline.at != before:
            self._watch.forget_history()
        return True

    def _act(self, key: str) -> bool:
        """A key of every page; False if it is not one."""
        match key:
            case "q":
                self.done = True
            case "h" | "?":
                self._help.open = True
            case "/":
                self.typing = True
            case "space" | "p":
                self._pause()
            case "d":
                self.dark = not self.dark
            case "u":
                next_units(self.state)
            case "+" | "=":  # plus without Shift
                self.interval = other_interval(self.interval, -1)
            case "-":
                self.interval = other_interval(self.interval, 1)
            case "[" | "]":
                change_span(self.state, 1 if key == "]" else -1)
            case "tab" | "shift+tab":
                change_device(self.state, self._ids, 1 if key == "tab" else -1)
            case "escape":
                self._go_back()
            case _:
                return False
        return True

    def click(self, column: int, line: int) -> None:
        """The mouse on a cell of the screen."""
        self._fault = ""
        try:
            self._click(column, line)
        except Exception as trouble:
            self._fault = self._note_fault(f"a click on the page {self.page.name}", trouble)

    def _click(self, column: int, line: int) -> None:
        for target in self._drawn.targets:
            stop = column + 1 if target.stop is None else target.stop
            if target.line == line and target.start <= column < stop:
                self._help.open = False
                before = self.state.filter
                self.go(target.act(self.state), before)
                return

    def go(self, name: str | None, filter_before: str) -> None:
        """To the page of that name, if there is one; Esc leads back, to the filter there, too."""
        names = [page.name for page in self._pages]
        if name in names and names.index(name) != self.state.page:
            self._back.append(_CameFrom(self.state.page, filter_before, self.state.filter))
            self.state.page = names.index(name)
            if isinstance(self.page, Inner):
                self.page.back()  # nothing of it is open yet

    def _note_fault(self, what: str, trouble: Exception) -> str:
        """Logs it once, with its traceback; returns the sentence for the screen."""
        from traceback import format_exception

        sentence = f"{what} failed ({type(trouble).__name__}: {trouble})"
        if len(self.faults) < MOST_FAULTS:
            self.faults[f"{sentence}; please report it\n{''.join(format_exception(trouble))}"] = (
                None
            )
        return sentence

    def _pause(self) -> None:
        self.state.paused = not self.state.paused and self._watch.shown is not None
        if self.state.paused:
            self._watch.hold()
        else:
            self._watch.release()

    def _go_back(self) -> None:
        came = self._back[-1] if self._back else None
        given = came is not None and came.filter != came.arrived == self.state.filter
        if self.state.filter and not given:
            self.state.filter = ""
        elif isinstance(self.page, Inner) and self.page.back():
            return
        elif came is not None:
            self._back.pop()
            self.state.page = came.page
            self.state.filter = came.filter if given else self.state.filter
        else:
            self.state.page = 0


def idle_lines(width: int) -> list[Line]:
    """Nothing runs, and what to try."""
    space = max(map(len, TRY))
    lines = [
        EMPTY,
        ink(f" {NOTHING_RUNNING[0].upper()}{NOTHING_RUNNING[1:]}.", Style.TITLE),
        EMPTY,
        ink(" Try one of these in another terminal:"),
        *(
            (*ink(f"   {command.ljust(space)}  ", Style.LABEL), *faint(does))
            for command, does in TRY.items()
        ),
    ]
    return [clip_line(line, width) for line in lines]


def _apology(page: str, trouble: Exception, width: int) -> list[Line]:
    text = (
        f" The page {page} failed ({type(trouble).__name__}: {trouble}). "
        "The other pages work; `ttmem ps --json` has the numbers. Please report it."
    )
    return paragraph(text, width, Style.ALARM)


def _in_ascii(line: Line) -> Line:
    return tuple(Span(plain_signs(span.text), span.style) for span in line)
