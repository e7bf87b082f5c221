"""The frame around every page: header, tabs, filter, losses, banners, keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import tzinfo
from typing import NamedTuple

from ttmem.sizes import several
from ttmem.snapshots import Losses, Snapshot
from ttmem.text import clean, columns, wrap
from ttmem.views.ink import EMPTY, Line, Span, Style, faint, fitted, ink, line_columns
from ttmem.views.monitor.live_data import chosen_names
from ttmem.views.monitor.state import Drawn, MonitorState, Target
from ttmem.views.names import moment
from ttmem.views.selection import NOT_SHOWN

# Five lines of pixels per letter.
_LETTERS = {
    "A": (" ## ", "#  #", "####", "#  #", "#  #"),
    "C": (" ###", "#   ", "#   ", "#   ", " ###"),
    "D": ("### ", "#  #", "#  #", "#  #", "### "),
    "E": ("####", "#   ", "### ", "#   ", "####"),
    "I": ("#", "#", "#", "#", "#"),
    "L": ("#   ", "#   ", "#   ", "#   ", "####"),
    "N": ("#  #", "## #", "####", "# ##", "#  #"),
    "O": (" ## ", "#  #", "#  #", "#  #", " ## "),
    "P": ("### ", "#  #", "### ", "#   ", "#   "),
    "S": (" ###", "#   ", " ## ", "   #", "### "),
    "T": ("###", " # ", " # ", " # ", " # "),
    "U": ("#  #", "#  #", "#  #", "#  #", " ## "),
}
_HALVES = {"  ": " ", "# ": "▀", " #": "▄", "##": "█"}


def banner_lines(
    word: str, sentences: list[str], width: int, style: Style, ascii_only: bool, small: bool
) -> list[Line]:
    """The word in large letters with the sentences beside or under it; `small`: one line in all."""
    rows = _rows(word, ascii_only)
    wide = len(rows[0]) + 2
    if small or wide > width:
        return [ink(f" {word} ", Style.BANNER) + ink(" " + " · ".join(sentences))]
    if len(sentences) <= len(rows) and wide + 2 + max(map(columns, sentences)) <= width:
        beside = [*sentences, *[""] * len(rows)]
        return [
            ink(f" {row}  ", style) + ink(text) for row, text in zip(rows, beside, strict=False)
        ]
    return [*(ink(f" {row}", style) for row in rows), *(ink(f" {text}") for text in sentences)]


def _rows(word: str, ascii_only: bool) -> list[str]:
    pixels = [" ".join(_LETTERS[letter][at] for letter in word) for at in range(5)]
    if ascii_only:
        return pixels
    pairs = zip([*pixels[::2]], [*pixels[1::2], " " * len(pixels[0])], strict=True)
    return ["".join(_HALVES[a + b] for a, b in zip(top, low, strict=True)) for top, low in pairs]


NARROWEST, LOWEST = 40, 8  # smaller windows show only a message
LOW = 16  # lines; below that, large letters would push the numbers out
STALE = 3.0  # seconds, or intervals, without an answer

Body = Callable[[int, int], Drawn]


class Status(NamedTuple):
    """What the frame says about the feed and the user's choices."""

    feed: str
    interval: float
    beats: int  # snapshots so far
    age: float | None  # seconds since the last snapshot; None: there was none
    problem: str | None = None
    missing: str = ""  # what was chosen on the command line and is not there
    typing: bool = False  # the filter
    pids: tuple[int, ...] = ()  # of --pid
    fault: str = ""  # what the last key did wrong
    time_bar: Line = ()  # of a recording
    notice: str = ""
    live: bool = False  # the present is shown, and one can go back

    @property
    def stale(self) -> bool:
        """Whether the feed has been silent for too long."""
        return self.age is not None and self.age > max(STALE, STALE * self.interval)


class ScreenFrame(NamedTuple):
    """The frame of one refresh; `around` draws it around a page."""

    status: Status
    state: MonitorState
    snapshot: Snapshot | None
    tabs: Sequence[str]
    keys: Sequence[tuple[str, str]]  # none: printed as text, without footer
    width: int
    height: int
    zone: tzinfo | None = None
    ascii: bool = False

    def around(self, body: Body) -> Drawn:
        """Exactly `height` lines of exactly `width` columns."""
        if self.width < NARROWEST or self.height < LOWEST:
            return Drawn([fitted(line, self.width) for line in self._too_small()])
        tabs, targets = _tab_line(self.tabs, self.state.page, self.width)
        top = [self._header(), tabs, *self._notes(), *self._banners()]
        foot = [_footer(self.keys, self.width)] if self.keys else []
        foot = [self.status.time_bar, *foot] if self.status.time_bar else foot
        space = max(self.height - len(top) - len(foot), 1)
        page = body(self.width, space)
        lines = [*top, *page.lines[:space]]
        lines += [EMPTY] * (self.height - len(foot) - len(lines)) + foot
        inside = [
            target._replace(line=target.line + len(top))
            for target in page.targets
            if 0 <= target.line < space
        ]
        return Drawn(
            [fitted(line, self.width) for line in lines[: self.height]], [*targets, *inside]
        )

    def _too_small(self) -> list[Line]:
        message = [
            "window too small",
            f"{self.width}x{self.height}, needs {NARROWEST}x{LOWEST}",
            "q quits",
        ]
        state = next((word for word, _, _ in self._alarms()), None)
        lines = [ink(text) for text in ([state] if state else []) + message]
        return [*lines, *[EMPTY] * self.height][: self.height]

    def _header(self) -> Line:
        status = self.status
        name = str(self.snapshot.host.get("name", "host unknown")) if self.snapshot else ""
        when = moment(self.snapshot.time_ns, self.zone) if self.snapshot else ""
        left = [
            ink(" ttmem", Style.TITLE),
            *([ink(name, Style.LABEL)] if name else []),
            *([ink(when)] if when else []),
            faint(status.feed),
        ]
        dots = "".join("●" if at == status.beats % 3 else "∙" for at in range(3))
        present = self.snapshot and not (self.state.paused or status.problem or status.stale)
        live = ink("live  ", Style.GOOD) if status.live and present else ()
        right = (*live, *faint(f"every {status.interval:g} s "), *ink(f"{dots} ", Style.GOOD))
        return _ends(left, right, self.width)

    def _notes(self) -> list[Line]:
        """The filter, losses, remarks of the sources, what was chosen and is missing, --pid; often nothing."""
        facts = []
        if self.status.fault:
            facts.append(ink(f"! {self.status.fault}", Style.ALARM))
        if self.status.notice:
            facts.append(ink(self.status.notice, Style.LABEL))
        if self.status.typing or self.state.filter:
            cursor = "_" if self.status.typing else ""
            hint = "" if self.status.typing else "  (Esc clears)"
            facts.append(ink(f"filter: {self.state.filter}{cursor}", Style.LABEL) + faint(hint))
        if self.snapshot and (lost := _lost(self.snapshot.losses)):
            facts.append(ink(f"! {lost}", Style.WARN))
        if self.snapshot and (remarks := self.snapshot.remarks):
            where = ": h" if self.keys else "; `ttmem ps` shows all"
            more = f"  (and {len(remarks) - 1} more{where})" if len(remarks) > 1 else ""
            facts.append(ink(f"! {remarks[0].text}{more}", Style.WARN))
        if self.status.missing.endswith(NOT_SHOWN):  # nothing is wrong: once is enough
            facts += [faint(self.status.missing)] if self.state.page == 0 else []
        elif self.status.missing:
            facts.append(ink(f"! {self.status.missing}", Style.WARN))
        if self.status.pids:
            who = chosen_names(self.status.pids)
            facts.append(ink(f"only {who}", Style.LABEL) + faint("; device figures include all"))
        return [_joined(facts)] if facts else []

    def _banners(self) -> list[Line]:
        lines: list[Line] = []
        for at, (word, sentences, style) in enumerate(self._alarms()):
            small = at > 0 or self.height < LOW
            lines += banner_lines(word, sentences, self.width, style, self.ascii, small)
        return lines

    def _alarms(self) -> list[tuple[str, list[str], Style]]:
        """Banners; the first is the largest."""
        status, out = self.status, []
        if self.state.paused and self.snapshot:
            text = f"snapshot of {moment(self.snapshot.time_ns, self.zone)}"
            out.append(("PAUSED", [text, "space continues"], Style.WARN))
        if status.problem is not None:
            why = wrap(clean(status.problem), self.width - 2)[:2]
            known = self.snapshot is not None and status.age is not None
            old = f"; the last snapshot is {status.age:.0f} s old" if known else ""
            out.append(("DISCONNECTED", [*why, f"trying again{old}"], Style.ALARM))
        elif status.stale:
            text = f"no answer for {status.age:.0f} s; still waiting"
            out.append(("STALE", [text], Style.ALARM))
        return out


def _lost(losses: Losses) -> str:
    amounts = (
        (losses.dropped_events, "event"),
        (losses.gaps, "gap"),
        (losses.rejected_records, "rejected record"),
    )
    parts = [several(count, noun) for count, noun in amounts if count]
    return f"lost: {', '.join(parts)}" if parts else ""


def _tab_line(names: Sequence[str], chosen: int, width: int) -> tuple[Line, list[Target]]:
    spans: list[Span] = [Span(" ")]
    targets: list[Target] = []
    full = sum(len(name) + 5 for name in names) <= width
    for at, name in enumerate(names):
        text = f" {at + 1} {name} " if full or at == chosen else f" {at + 1} "
        start = sum(len(span.text) for span in spans)
        targets.append(Target(1, _go_to(name), start, start + len(text)))
        style = Style.CURSOR if at == chosen else Style.PLAIN
        spans += [Span(text, style), Span(" ")]
    return tuple(spans), targets


def _go_to(name: str) -> Callable[[MonitorState], str]:
    return lambda _: name


def _footer(keys: Sequence[tuple[str, str]], width: int) -> Line:
    """As many keys as fit."""
    line: Line = ()
    for key, does in keys:
        longer = (*line, Span(" "), *ink(key, Style.LABEL), Span(" "), *faint(f"{does} "))
        if line_columns(longer) > width:
            break
        line = longer
    return line


def _joined(facts: Sequence[Line]) -> Line:
    return tuple(span for fact in facts for span in (Span(" "), *fact, Span(" ")))


def _ends(left: Sequence[Line], right: Line, width: int) -> Line:
    """As many facts as fit from the left, and `right` at the right end."""
    space = width - line_columns(right) - 1
    line: Line = ()
    for fact in left:
        longer = (*line, *(Span("  ") for _ in line[:1]), *fact)
        if line_columns(longer) > space:
            break
        line = longer
    return (*line, Span(" " * (space + 1 - line_columns(line))), *right)
