"""The monitor without a terminal: what it shows, and what each key and click does to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import tzinfo

from ttmem.views.ink import Line, Span, Style, faint, paragraph
from ttmem.views.monitor.follower import Question
from ttmem.views.monitor.frame import Frame, Status
from ttmem.views.monitor.help import help_lines
from ttmem.views.monitor.keys import FOOTER, INTERVALS
from ttmem.views.monitor.page import Drawn, Look, Page, Watcher
from ttmem.views.monitor.state import SPANS, State, Units
from ttmem.views.monitor.watch import Watch, wanted
from ttmem.views.terminal import plain_signs

ONE_DEVICE = ("Device", "Cores", "Kernels")  # pages that show the details of one device only
STEPS = {"up": -1, "down": 1, "pageup": -10, "pagedown": 10, "home": -100_000, "end": 100_000}


class Monitor:
    """Pages, the user's choices and the watched feed; `picture` is everything on the screen."""

    def __init__(
        self,
        feed: str,
        watch: Watch,
        pages: Sequence[Page],
        *,
        interval: float = 1.0,
        page: int = 0,
        zone: tzinfo | None = None,
        ascii_only: bool = False,
        paper: bool = False,
    ) -> None:
        self.state = State(page=page)
        self.interval = interval
        self.dark = True
        self.done = False
        self._feed = feed
        self._watch = watch
        self._pages = pages
        self._watchers = [page for page in pages if isinstance(page, Watcher)]
        self._zone = zone
        self._ascii = ascii_only
        self._paper = paper  # printed once: no keys
        self._typing = False
        self._help: int | None = None  # first line of the help that is shown
        self._help_room = (0, 0)  # lines of the help, lines on the screen
        self._back: list[int] = []
        self._drawn = Drawn([])
        self._look: Look | None = None

    @property
    def page(self) -> Page:
        """The page that is shown."""
        return self._pages[self.state.page]

    def question(self) -> Question:
        """What the feed should be asked for now."""
        return self._watch.question(self._wanted())

    def _wanted(self) -> Question:
        return wanted(self.page.details(self.state), self._one_device())

    def _one_device(self) -> str | None:
        shown = self._watch.shown
        ids = [device.unique_id for device in shown.snapshot.devices] if shown else []
        if self.page.name not in ONE_DEVICE and len(ids) != 1:
            return None
        return self.state.device if self.state.device in ids else next(iter(ids), None)

    # -- the picture -------------------------------------------------------------------------------

    def picture(self, width: int, height: int) -> list[Line]:
        """The lines of the screen."""
        shown, watch = self._watch.shown, self._watch
        if shown is not None:
            for page in self._watchers:
                page.watch(shown.snapshot)
        frame = Frame(
            Status(
                self._feed,
                self.interval,
                watch.beats,
                watch.age,
                watch.problem,
                shown.missing if shown else "",
                self._typing,
            ),
            self.state,
            shown.snapshot if shown else None,
            [page.name for page in self._pages],
            () if self._paper else (*FOOTER[:2], *self.page.keys, *FOOTER[2:]),
            width,
            height,
            self._zone,
            self._ascii,
        )
        self._drawn = frame.around(self._body if self._help is None else self._help_page)
        if self._ascii:
            return [_in_ascii(line) for line in self._drawn.lines]
        return self._drawn.lines

    def _body(self, width: int, height: int) -> Drawn:
        shown = self._watch.shown
        self._look = None
        if shown is None:
            waiting = "" if self._watch.problem else f" waiting for the {self._feed}"
            return Drawn([faint(waiting)])
        if not shown.answers(self._wanted()):
            return Drawn([faint(" reading ...")])
        self._look = Look(
            shown.snapshot,
            self._watch.history,
            self.state,
            width,
            height,
            self._zone,
            self._ascii,
        )
        try:
            return self.page.draw(self._look)
        except Exception as trouble:  # the other pages still work, and the terminal stays whole
            return Drawn(_apology(self.page.name, trouble, width))

    def _help_page(self, width: int, height: int) -> Drawn:
        shown = self._watch.shown
        snapshot = shown.snapshot if shown else None
        lines = help_lines(self._pages, self.state.page, snapshot, width)
        first = min(self._help or 0, max(len(lines) - height + 1, 0))
        self._help, self._help_room = first, (len(lines), height)
        below = len(lines) - first - (height - 1)
        more = f" {below} more lines below" if below > 0 else " end of the help; Esc closes it"
        return Drawn([*lines[first : first + height - 1], faint(more)])

    # -- keys and clicks ---------------------------------------------------------------------------

    def press(self, key: str) -> None:
        """A key by its sign ('a', '/', '1') or its name ('up', 'space', 'shift+tab')."""
        if key == "ctrl+c":
            self.done = True
        elif self._typing:
            self._type(key)
        elif self._help is not None and key not in ("q", "d"):
            self._move_help(key)
        elif act := self._acts().get(key):
            act()
        elif key.isdecimal() and len(key) == 1:
            if 0 < int(key) <= len(self._pages):
                self._back.clear()
                self.state.page = int(key) - 1
        elif self._look is not None:
            self._for_page(key, self._look)

    def click(self, column: int, line: int) -> None:
        """The mouse on a cell of the screen."""
        for target in self._drawn.targets:
            stop = column + 1 if target.stop is None else target.stop
            if target.line == line and target.start <= column < stop:
                self._help = None
                self.go(target.act(self.state))
                return

    def go(self, name: str | None) -> None:
        """To the page of that name, if there is one; Esc leads back."""
        names = [page.name for page in self._pages]
        if name in names and names.index(name) != self.state.page:
            self._back.append(self.state.page)
            self.state.page = names.index(name)

    def _for_page(self, key: str, look: Look) -> None:
        try:
            name = self.page.key(key, look)
        except Exception:  # a key that a page cannot take on this picture changes nothing
            return
        self.go(name)

    def _acts(self) -> dict[str, Callable[[], None]]:
        return {
            "q": self._quit,
            "h": self._open_help,
            "?": self._open_help,
            "/": self._open_filter,
            "space": self._pause,
            "p": self._pause,
            "d": self._turn_light,
            "u": self._next_units,
            "+": lambda: self._change_interval(-1),
            "=": lambda: self._change_interval(-1),  # plus without Shift
            "-": lambda: self._change_interval(1),
            "[": lambda: self._change_span(-1),
            "]": lambda: self._change_span(1),
            "tab": lambda: self._change_device(1),
            "shift+tab": lambda: self._change_device(-1),
            "escape": self._go_back,
        }

    def _quit(self) -> None:
        self.done = True

    def _open_help(self) -> None:
        self._help = 0

    def _move_help(self, key: str) -> None:
        if key in ("escape", "h", "?", "enter"):
            self._help = None
        elif key in STEPS and self._help is not None:
            lines, room = self._help_room
            self._help = max(0, min(self._help + STEPS[key], lines - room + 1))

    def _open_filter(self) -> None:
        self._typing = True

    def _type(self, key: str) -> None:
        if key in ("escape", "enter"):
            self._typing = False
            self.state.filter = "" if key == "escape" else self.state.filter
        elif key == "backspace":
            self.state.filter = self.state.filter[:-1]
        elif key == "space" or (len(key) == 1 and key.isprintable()):
            self.state.filter += " " if key == "space" else key
        elif key in STEPS and self._look is not None:
            self._for_page(key, self._look)

    def _pause(self) -> None:
        self.state.paused = not self.state.paused and self._watch.shown is not None
        if self.state.paused:
            self._watch.hold()
        else:
            self._watch.release()

    def _turn_light(self) -> None:
        self.dark = not self.dark

    def _next_units(self) -> None:
        every = list(Units)
        self.state.units = every[(every.index(self.state.units) + 1) % len(every)]

    def _change_interval(self, by: int) -> None:
        nearest = min(range(len(INTERVALS)), key=lambda at: abs(INTERVALS[at] - self.interval))
        self.interval = INTERVALS[max(0, min(nearest + by, len(INTERVALS) - 1))]

    def _change_span(self, by: int) -> None:
        at = SPANS.index(self.state.span) + by
        self.state.span = SPANS[max(0, min(at, len(SPANS) - 1))]

    def _change_device(self, by: int) -> None:
        shown = self._watch.shown
        ids = [device.unique_id for device in shown.snapshot.devices] if shown else []
        if ids:
            at = ids.index(self.state.device) if self.state.device in ids else 0
            self.state.device = ids[(at + by) % len(ids)]

    def _go_back(self) -> None:
        if self.state.filter:
            self.state.filter = ""
        elif self._back:
            self.state.page = self._back.pop()
        else:
            self.state.page = 0


def _apology(page: str, trouble: Exception, width: int) -> list[Line]:
    text = (
        f" The page {page} cannot show this picture ({type(trouble).__name__}: {trouble}). "
        "The other pages work; `ttmem ps --json` has the numbers. Please report it."
    )
    return paragraph(text, width, Style.ALARM)


def _in_ascii(line: Line) -> Line:
    return tuple(Span(plain_signs(span.text), span.style) for span in line)
