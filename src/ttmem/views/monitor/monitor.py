"""The monitor without a terminal: what it shows, and what each key and click does."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from datetime import tzinfo
from typing import NamedTuple

from ttmem.snapshots import Question, Snapshot
from ttmem.views.ink import EMPTY, Line, Style, clip_line, faint, ink, paragraph
from ttmem.views.monitor.frame import Status
from ttmem.views.monitor.help import BACK, FOOTER, help_lines
from ttmem.views.monitor.live_data import LiveData, Reading, wanted
from ttmem.views.monitor.screen import MonitorScreen
from ttmem.views.monitor.state import Drawn, Look, Page, Target, change_device, change_span
from ttmem.views.monitor.timeline import LiveTimeline, Timeline
from ttmem.views.selection import NOTHING_RUNNING, TRY

MOMENT = 0.3  # seconds; a page that waits no longer than this does not flicker
ONE_DEVICE = ("Device", "Cores", "Kernels")  # pages that show the details of one device only


class _CameFrom(NamedTuple):
    """Where the user came from, and the filters there and on arrival at the deeper page."""

    page: int
    filter: str
    arrived: str


class Monitor(MonitorScreen):
    """Pages, the user's choices and the watched feed; `screen` is what they look like."""

    def __init__(
        self,
        feed: Callable[[], str],
        watch: LiveData,
        pages: Sequence[Page],
        *,
        interval: float = 1.0,
        page: int = 0,
        zone: tzinfo | None = None,
        ascii_only: bool = False,
        paper: bool = False,
        timeline: Timeline | None = None,
    ) -> None:
        super().__init__([one.name for one in pages], interval, page, zone, ascii_only, paper)
        self._feed = feed  # its name, which may change: a server came, or went
        self._watch = watch
        self._pages = pages
        self.timeline = timeline  # of a recording; None: live
        self.notice = ""  # which instant of a recording was opened; until the user moves in time
        self._back: list[_CameFrom] = []
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

    def take(self, readings: Iterable[Reading[Question, Snapshot]]) -> None:
        self._watch.take(readings)

    def wish(self) -> object:
        """What is to be read; while a recording plays, its instant does not count."""
        timeline = self.timeline
        at = timeline.at if timeline and not timeline.playing else None
        return self.question(), self.interval, at

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
        if (snapshot := self._snapshot()) is not None:
            for page in self._pages:
                page.watch(snapshot)
        return super().screen(width, height)

    def _snapshot(self) -> Snapshot | None:
        shown = self._watch.shown
        return shown.snapshot if shown else None

    def _status(self, width: int) -> Status:
        shown, watch = self._watch.shown, self._watch
        return Status(
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
        )

    def _keys(self) -> Sequence[tuple[str, str]]:
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
        """The screen until the feed answers; at first the previous screen is kept."""
        now = time.monotonic()
        self._asked_at = now if self._asked_at is None else self._asked_at
        if now - self._asked_at < MOMENT:
            return Drawn(self._body_before.lines)
        return Drawn([faint(" reading ...")])

    def _help_lines(self, width: int) -> list[Line]:
        timeline = self.timeline
        time_keys = timeline.help if timeline else ()
        live = timeline is not None and timeline.live
        return help_lines(self._pages, self.state.page, self._snapshot(), width, time_keys, live)

    # -- keys and clicks ---------------------------------------------------------------------------

    def _turn_to(self, page: int) -> None:
        self._back.clear()
        self.state.page = page

    def _press_page(self, key: str) -> None:
        if self._look is not None:
            before = self.state.filter
            self.go(self.page.key(key, self._look), before)

    def _press_time(self, key: str) -> bool:
        timeline = self.timeline
        if timeline is None or self._help.open or self.state.paused:
            return False
        before = timeline.at
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
        match key:
            case "space" | "p":
                self._pause()
            case "[" | "]":
                change_span(self.state, 1 if key == "]" else -1)
            case "tab" | "shift+tab":
                change_device(self.state, self._ids, 1 if key == "tab" else -1)
            case _:
                return super()._act(key)
        return True

    def _follow(self, target: Target) -> None:
        before = self.state.filter
        self.go(target.act(self.state), before)

    def go(self, name: str | None, filter_before: str) -> None:
        """To the page of that name, if there is one; Esc leads back, to the filter there, too."""
        if name in self._tabs and self._tabs.index(name) != self.state.page:
            self._back.append(_CameFrom(self.state.page, filter_before, self.state.filter))
            self.state.page = self._tabs.index(name)
            self.page.back()  # nothing of it is open yet

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
        elif self.page.back():
            return
        elif came is not None:
            self._back.pop()
            self.state.page = came.page
            self.state.filter = came.filter if given else self.state.filter
        else:
            self.state.page = 0


def idle_lines(width: int) -> list[Line]:
    """Says that nothing is running, and what to try."""
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
