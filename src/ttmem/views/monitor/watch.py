"""The pictures of a feed as the monitor shows them: the latest, or the one that is held; and the past."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ttmem.snapshots import Snapshot
from ttmem.snapshots.detail import DETAILS
from ttmem.views.monitor.choice import Choice
from ttmem.views.monitor.follower import Question, Reading
from ttmem.views.monitor.history import History
from ttmem.views.monitor.page import Series
from ttmem.views.names import in_order

PAST = "history"
LIMIT = 2000  # rows of a detail; more than anyone scrolls through
# Held pictures have every detail, so that each page works while it is held.
EVERYTHING = Question(tuple(name for name in DETAILS if name != PAST), None, LIMIT)


@dataclass(frozen=True, slots=True)
class Shown:
    """The picture on the screen, with what it was asked for."""

    snapshot: Snapshot
    question: Question
    missing: str = ""

    def answers(self, question: Question) -> bool:
        """Everything that the question asks for was asked."""
        known = self.question
        if not question.detail:
            return True
        return set(question.detail) <= set(known.detail) and known.device in (None, question.device)


class Watch:
    """Takes readings; it is asked what to show, and what to ask the feed for next."""

    def __init__(self, choice: Choice, clock: Callable[[], float] = time.monotonic) -> None:
        self.shown: Shown | None = None
        self.problem: str | None = None
        self.beats = 0
        self._choice = choice
        self._clock = clock
        self._arrived: float | None = None
        self._history = History()
        self._past_wanted = True
        self._held: Mapping[str, Series] | None = None  # the past of a held picture
        self._complete = False  # the held picture has every detail

    @property
    def pids(self) -> tuple[int, ...]:
        """The processes of the choice; none: all."""
        return self._choice.pids

    @property
    def age(self) -> float | None:
        """Seconds since the feed's last picture."""
        return None if self._arrived is None else max(self._clock() - self._arrived, 0.0)

    @property
    def history(self) -> Mapping[str, Series]:
        """The past up to the picture that is shown."""
        return self._history.series if self._held is None else self._held

    def question(self, wanted: Question) -> Question:
        """What to ask for, if the page wants that.

        The past is asked for once, and again after trouble, but never with the first picture: an
        hour of 32 devices is 9 MB.
        """
        if self._held is not None:
            return Question() if self._complete else EVERYTHING
        if self._past_wanted and self.beats:
            return replace(wanted, detail=(*wanted.detail, PAST))
        return wanted

    def hold(self) -> None:
        """Keeps the picture; the next reading completes it."""
        self._held, self._complete = self._history.copy(), False

    def release(self) -> None:
        """Follows the feed again."""
        self._held = None

    def take(self, readings: Iterable[Reading]) -> None:
        """What the feed said, oldest first."""
        for reading in readings:
            if reading.snapshot is None:
                self.problem = reading.problem
                self._past_wanted = True
            else:
                self.problem = None
                self._arrived = reading.arrived
                self.beats += 1
                self._learn(reading.question, reading.snapshot)
                self._show(reading.question, in_order(reading.snapshot))

    def _learn(self, question: Question, snapshot: Snapshot) -> None:
        if PAST in question.detail:
            self._history.begin(snapshot.detail.get(PAST))
            self._past_wanted = False
        self._history.add(snapshot)

    def _show(self, question: Question, snapshot: Snapshot) -> None:
        if self._held is not None and self.shown is not None:
            if self._complete or question != EVERYTHING:
                return
            snapshot = _with_events_of(self.shown.snapshot, snapshot)
            self._complete = True
        part, missing = self._choice.of(snapshot)
        self.shown = Shown(part, question, missing)


def _with_events_of(earlier: Snapshot, snapshot: Snapshot) -> Snapshot:
    """Who holds the list of events wants to read those that were on the screen."""
    if "events" not in earlier.detail:
        return snapshot
    return replace(snapshot, detail={**snapshot.detail, "events": earlier.detail["events"]})


def wanted(details: Sequence[str], device: str | None) -> Question:
    """The question of a page; the past is not its business."""
    return Question(tuple(name for name in details if name != PAST), device, LIMIT)
