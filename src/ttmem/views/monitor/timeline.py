"""The time bar of a recording: which instant is shown, and the keys that move it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ttmem.text import clip, columns
from ttmem.views.ink import Line, Span, Style, faint, ink
from ttmem.views.monitor.state import step, terms

if TYPE_CHECKING:  # a live monitor does not need the code that reads files
    from ttmem.feeds.recording_feed import PastSpan, RecordingFeed

SPEEDS = (0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 100.0)
SECOND = 1_000_000_000
LEAST_BAR = 10
MANY_PHASES = 40  # with more, phases of a loop would hide everything else
HINT = "12.5s, 2m30s, 14:05:30, peak:l1, peak:dram, oom, marker, start, end"
KEYS = (
    ("space", "play/pause"),
    (", .", "event"),
    ("{ }", "second"),
    ("< >", "marker"),
    ("Home End", "start, end"),
    ("g", "go to"),
    ("+ -", "speed"),
)
HELP = terms("""
space  p | plays the recording, and pauses it; at the end it starts again from the beginning
,  . | one event back or forward
{  } | one second back or forward
<  > | to the marker before or after: a failed allocation, the start or end of a process, a mark, a phase; of more
    than 40 phases the first of each name
Home  End | to the start or the end of the recording
g | goes to an instant that you type, such as 12.5s, 14:05:30, peak:l1 or oom; Enter goes, Esc stays
+  - | plays faster or slower: 0.1 to 100 times
""")


LIVE_KEYS = {"Home End": "oldest, live"}
LIVE_HELP = (
    *terms("space  p | pauses; then it plays from there, and pauses again"),
    *HELP[1:4],
    *terms("""
g | goes to an instant that you type, such as 14:05:30, peak:l1, oom or start; Enter goes, Esc stays
End | while the past is shown: back to the present
Home | while the past is shown: to the oldest instant that is kept; an hour is, and at most 256 MiB
+  - | while the past is shown: plays faster or slower: 0.1 to 100 times
"""),
)
GO_BACK = ("space", "p", ",", "{", "<", "g")  # the keys that leave the present
FROM_LIVE = {",": "last event", "<": "last marker"}  # as in `PastFeed`; the others go to a time
LIVE = "live"  # what a feed is asked for at its end


class Mark(NamedTuple):
    """Something in the recording to go to."""

    time_ns: int
    position: int  # at which it has taken effect
    kind: str  # phase, failure, start, end or mark
    text: str


def _marks(markers: Iterable[Any]) -> list[Mark]:
    """From those of a recording. The marker of an event is before it."""
    return [
        Mark(one.time_ns, one.position + (one.kind in ("failure", "phase")), one.kind, one.text)
        for one in markers
    ]


class Seekable(Protocol):
    """A feed that shows the instant `at`; `reached` is the position and time of its last snapshot."""

    at: str | float
    reached: tuple[int, int] | None
    growing: bool  # there will be more at its end: a file that is still being written

    @property
    def span(self) -> PastSpan | None:
        """What there is to show, when that was last looked at; None: nothing new since the beginning."""


class Keeping(Seekable, Protocol):
    """A live feed that keeps its recent past; `at` is LIVE for the present."""

    @property
    def missing(self) -> str:
        """Why there is no past; empty: there is."""

    @property
    def note(self) -> str:
        """What there is to say about the instant."""


def _stops(marks: Sequence[Mark]) -> list[Mark]:
    """The markers that the bar shows and `<` and `>` stop at: of many phases only the first of each name."""
    phases = sum(mark.kind == "phase" for mark in marks)
    if phases <= MANY_PHASES:
        return list(marks)
    first: dict[str, Mark] = {}
    for mark in marks:
        if mark.kind == "phase":
            first.setdefault(mark.text, mark)
    return [mark for mark in marks if mark.kind != "phase" or first[mark.text] is mark]


class Timeline:
    """Moves `feed.at`; the feed is read in another thread, which also finds the instant: a peak may need a replay
    of the whole file."""

    keys: Sequence[tuple[str, str]] = KEYS
    help: Sequence[tuple[str, str]] = HELP
    end = "end"  # what the feed is asked for at the end
    live = False

    def __init__(
        self, feed: Seekable, started_ns: int, ended_ns: int, marks: Sequence[Mark] = ()
    ) -> None:
        self.playing = False
        self.speed = 1.0
        self.typed: str | None = None  # the answer to 'go to', while it is typed
        self._feed = feed
        self._started, self._ended = started_ns, max(ended_ns, started_ns)
        self._marks = marks
        self._span: PastSpan | None = None  # from which times and marks were taken
        self._good = self.at  # the last instant that could be shown
        self._played_at = 0.0
        self._playing_ns = 0  # the instant that is wanted now

    @classmethod
    def of(cls, feed: RecordingFeed) -> Timeline:
        """Reads the markers, so it has to be made before another thread reads the feed."""
        info = feed.recording.info()
        return cls(feed, info.started_ns, info.ended_ns, _marks(feed.recording.markers))

    @property
    def at(self) -> str:
        """What the feed is asked for."""
        return str(self._feed.at)

    @property
    def _position(self) -> int:
        return (self._feed.reached or (0, 0))[0]

    @property
    def time_ns(self) -> int:
        """Of the last snapshot. The file may have grown since it was opened."""
        reached = (self._feed.reached or (0, self._started))[1]
        self._ended = max(self._ended, reached)
        return max(self._started, reached)

    def go(self, at: str) -> None:
        self._good, self._feed.at = self.at, at

    def refuse(self) -> None:
        """The feed knows no such instant: back to the one before."""
        self.playing = False
        self.go(self._good)

    def tick(self, now: float) -> None:
        """Moves on while it plays; `now`: of the monotonic clock."""
        if not self.playing:
            return
        passed, self._played_at = now - self._played_at, now
        self._playing_ns += int(passed * self.speed * SECOND)
        if self._playing_ns >= self._ended:
            self.playing = False
            self.go(self.end)
        else:
            self.go(self._when(self._playing_ns))

    def _when(self, time_ns: int) -> str:
        return f"{max(time_ns - self._started, 0) / SECOND:.9f}s"

    def press(self, key: str, now: float) -> bool:
        """False if the key is not one of the time bar."""
        if self.typed is not None:
            self._type(key)
            return True
        match key:
            case "space" | "p":
                self._toggle(now)
            case "g":
                self.typed = ""
            case "+" | "=" | "-":
                self.speed = step(SPEEDS, SPEEDS.index(self.speed), -1 if key == "-" else 1)
            case "home" | "end":
                self._jump("start" if key == "home" else self.end)
            case "{" | "}":
                self._jump(self._when(self.time_ns + (SECOND if key == "}" else -SECOND)))
            case "," | ".":
                self._jump(f"#{max(self._position + (1 if key == '.' else -1), 0)}")
            case "<" | ">":
                self._jump_to_mark(1 if key == ">" else -1)
            case _:
                return False
        return True

    def _toggle(self, now: float) -> None:
        self.playing = not self.playing
        self._played_at = now
        self._playing_ns = self.time_ns
        if self.playing and self.time_ns >= self._ended:
            self._playing_ns = self._started

    def _jump(self, at: str) -> None:
        self.playing = False
        self.go(at)

    def _jump_to_mark(self, by: int) -> None:
        stops = _stops(self._marks)
        later = [mark for mark in stops if mark.position > self._position]
        earlier = [mark for mark in stops if mark.position < self._position]
        found = later[:1] if by > 0 else earlier[-1:]
        if found:
            self._jump(f"#{found[0].position}")

    def _type(self, key: str) -> None:
        typed = self.typed or ""
        if key == "escape":
            self.typed = None
        elif key == "enter":
            self.typed = None
            if typed == "marker":
                self._jump_to_mark(1)
            elif typed:
                self._jump(self.end if typed == "end" else typed)
        elif key == "backspace":
            self.typed = typed[:-1]
        elif len(key) == 1 and key.isprintable():
            self.typed = typed + key

    # -- drawing -----------------------------------------------------------------------------------

    def line(self, width: int, ascii: bool) -> Line:
        """'❚❚  12.5 s / 60.0 s  ━━━━╸────┃───  phase decode'; or what is typed after `g`."""
        self._take_span()
        if self.typed is not None:
            return (*ink(f" go to: {self.typed}_", Style.LABEL), *faint(f"  ({HINT})"))
        state = f"{'>' if ascii else '▶'} x{self.speed:g}" if self.playing else "paused"
        if self._feed.growing and self.at == self.end:
            state = "follows"
        now, end = self.time_ns - self._started, self._ended - self._started
        more = ", still being written" if self._feed.growing else ""
        head = f" {state.ljust(6)}  {_of_length(now, end)}{more}  "
        said = self._latest()
        space = width - columns(head) - 1
        text = clip(f"  {said}", max(space - 2 * LEAST_BAR, 0)) if said else ""
        cells = space - columns(text)
        if cells < LEAST_BAR:
            return ink(head)
        return (*ink(head), *self._bar(cells, ascii), *faint(text))

    def _take_span(self) -> None:
        """A file grows, and a live feed forgets: their times and markers are those of now."""
        span = self._feed.span
        if span is not None and span is not self._span:
            self._span = span
            self._started, self._ended = span.started_ns, span.ended_ns
            self._marks = _marks(span.markers)

    def _latest(self) -> str:
        """The last marker up to now, or what else there is to say about this instant."""
        # The marker at a position may be later than the event before it, which gives the instant its time.
        position = self._position if self.at.startswith("#") else -1
        past = [
            mark
            for mark in self._marks
            if mark.time_ns <= self.time_ns or mark.position <= position
        ]
        if not past:
            return ""
        latest = max(past, key=lambda mark: (mark.time_ns, mark.kind == "failure", mark.position))
        return f"{latest.kind}: {latest.text}"

    def _bar(self, cells: int, ascii: bool) -> Line:
        done, rest, mark = ("=", "-", "|") if ascii else ("━", "─", "┃")
        here = self._cell(self.time_ns, cells)
        spans = [Span(done if at <= here else rest, Style.PLAIN) for at in range(cells)]
        for one in _stops(self._marks):
            bad = one.kind == "failure"
            cell = self._cell(one.time_ns, cells)
            if bad or spans[cell].style is not Style.ALARM:
                spans[cell] = Span("!" if bad else mark, Style.ALARM if bad else Style.LABEL)
        spans[here] = Span("#" if ascii else "●", Style.GOOD)
        return tuple(spans)

    def _cell(self, time_ns: int, cells: int) -> int:
        span = max(self._ended - self._started, 1)
        return max(0, min((time_ns - self._started) * cells // span, cells - 1))


class LiveTimeline(Timeline):
    """Of a live feed that keeps its recent past. There is no bar until a key goes back."""

    keys = tuple((key, LIVE_KEYS.get(key, does)) for key, does in KEYS)
    help = LIVE_HELP
    end = LIVE

    def __init__(self, feed: Keeping) -> None:
        super().__init__(feed, 0, 0)
        self.said = ""  # why a key could not go back
        self._keeping = feed

    @property
    def live(self) -> bool:  # type: ignore[override]
        return self.at == LIVE

    def press(self, key: str, now: float) -> bool:
        self.said = ""
        if not self.live or self.typed is not None:
            return super().press(key, now)
        if key not in GO_BACK:
            return False
        self.said = self._keeping.missing
        if self.said:
            return key not in ("space", "p")  # the screen can be frozen in any case
        self.playing = False
        if key == "g":
            self.typed = ""
        else:
            now_ns = self.time_ns
            self._started = self._ended = now_ns  # until the past was looked at
            step = SECOND if key == "{" else 0
            self.go(FROM_LIVE.get(key) or self._when(now_ns - step))
        return True

    def _when(self, time_ns: int) -> str:
        return f"@{time_ns}"

    def go(self, at: str) -> None:
        super().go(LIVE if at.startswith("@") and int(at[1:]) > self._ended else at)

    def line(self, width: int, ascii: bool) -> Line:
        if self.live and self.typed is None:
            return ()
        return super().line(width, ascii)

    def _latest(self) -> str:
        return self._keeping.note or super()._latest()


def _of_length(now_ns: int, end_ns: int) -> str:
    """'12.500 s / 60.0 s', '0.012 s / 0.250 s', '1.250 ms / 27.800 ms': a short recording has a length, too."""
    if end_ns < SECOND // 10:
        return f"{now_ns / 1e6:.3f} ms / {end_ns / 1e6:.3f} ms"
    length = f"{end_ns / SECOND:,.{3 if end_ns < 10 * SECOND else 1}f}"
    return f"{now_ns / SECOND:,.3f} s / {length} s"
