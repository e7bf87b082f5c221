"""The feed as the monitor sees it: read in a thread, narrowed to the choice, live or paused, with its history."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from queue import SimpleQueue
from typing import Generic, NamedTuple, TypeVar

from ttmem.errors import NothingToRead, TtmemError
from ttmem.snapshots import DETAILS, Question, Snapshot
from ttmem.views.monitor.chart import SENSORS
from ttmem.views.monitor.sample_history import SampleHistory, measured
from ttmem.views.monitor.state import Series
from ttmem.views.names import in_order
from ttmem.views.selection import idle_sentence, is_device, none_of, select, without_idle

RETRY = 0.5  # seconds at least between two attempts while there is trouble
PARTING = 0.2  # seconds to wait for the thread at the end; one that hangs dies with the process


Q = TypeVar("Q")  # a question
A = TypeVar("A")  # its answer


@dataclass(frozen=True, slots=True)
class Reading(Generic[Q, A]):
    """One answer of a feed, or what was wrong."""

    question: Q
    arrived: float  # of the monotonic clock
    answer: A | None = None
    problem: str | None = None
    idle: bool = False  # there is nothing to read, because no program uses a device


class Poller(Generic[Q, A]):
    """Reads a feed in a thread and queues its answers; `notify` is called in that thread after each."""

    def __init__(
        self,
        read: Callable[[Q], A],
        question: Callable[[], Q],
        interval: Callable[[], float],
        name: Callable[[], str],
        close: Callable[[], None] = lambda: None,  # its connection; the next reading opens another
    ) -> None:
        self.notify: Callable[[], None] = lambda: None
        self._read = read
        self._question = question
        self._interval = interval
        self._name = name
        self._close = close
        self._readings: SimpleQueue[Reading[Q, A]] = SimpleQueue()
        self._wake = threading.Event()
        self._arrived = threading.Event()
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="ttmem-feed", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread; if the reading hangs, it ends with the process."""
        self._ended = True
        self._wake.set()
        self._thread.join(PARTING)

    def hurry(self) -> None:
        """Reads now, because the question or the interval has changed."""
        self._wake.set()

    def wait(self, seconds: float) -> None:
        """Waits for a reading, at most that long."""
        self._arrived.wait(seconds)

    def readings(self) -> list[Reading[Q, A]]:
        """What has arrived since the last call, oldest first."""
        self._arrived.clear()
        out = []
        while not self._readings.empty():
            out.append(self._readings.get())
        return out

    def _run(self) -> None:
        while not self._ended:
            begun = time.monotonic()
            reading = self._ask(self._question())
            self._readings.put(reading)
            self._arrived.set()
            self.notify()
            pause = max(self._interval(), RETRY if reading.problem else 0.0)
            self._wake.wait(max(0.0, begun + pause - time.monotonic()))
            self._wake.clear()
        self._close()

    def _ask(self, question: Q) -> Reading[Q, A]:
        problem, answer, idle = None, None, False
        try:
            answer = self._read(question)
        except NothingToRead:
            idle = True
        except TtmemError as trouble:
            problem = str(trouble)
        except Exception as trouble:  # unforeseen garbage: the next read connects again
            self._close()
            problem = f"{self._name()} answers nonsense: {type(trouble).__name__}: {trouble}"
        return Reading(question, time.monotonic(), answer, problem, idle)


NAMED = 3


def chosen_names(pids: Collection[int]) -> str:
    """'pid 41235', 'pids 1, 2', or how many there are."""
    if len(pids) > NAMED:
        return f"{len(pids):,} chosen processes"
    return f"{'pid' if len(pids) == 1 else 'pids'} {', '.join(map(str, pids))}"


class Choice(NamedTuple):
    """Devices by logical or unique id, processes by pid; an empty choice is everything."""

    devices: tuple[str, ...] = ()
    pids: tuple[int, ...] = ()

    def of(self, snapshot: Snapshot) -> tuple[Snapshot, str]:
        """The chosen part, and a sentence about what is missing from it."""
        here = [one for one in self.devices if any(is_device(d, one) for d in snapshot.devices)]
        known = _pids(snapshot)
        missing = [f"device {one}" for one in self.devices if one not in here]
        missing += [f"process {pid}" for pid in self.pids if pid not in known]
        sentence = f"not there (yet): {', '.join(missing)}" if missing else ""
        if not self.devices:
            snapshot, idle = without_idle(snapshot)
            sentence = sentence or idle_sentence(idle)
        if self.devices and not here:
            return none_of(snapshot), sentence
        part = select(snapshot, here, ())
        return (self._of_processes(part) if self.pids else part), sentence

    def _of_processes(self, snapshot: Snapshot) -> Snapshot:
        pids = [pid for pid in self.pids if pid in _pids(snapshot)]
        nothing = replace(snapshot.with_rows_of(()), processes=(), left_behind=())
        part = select(snapshot, (), pids) if pids else nothing
        # A map without the buffers of others would show their addresses as free.
        return replace(part, l1_buffers=snapshot.l1_buffers)


def _pids(snapshot: Snapshot) -> set[int]:
    dead = {left.pid for left in snapshot.left_behind}
    return dead | {process.pid for process in snapshot.processes}


PAST = "history"
LIMIT = 2000  # rows of a detail; more than anyone scrolls through
MOST_BUFFERS = 10_000  # they are grouped: the small ones of one line may be the largest group
# A paused snapshot has every detail, so that each page works.
EVERYTHING = Question(tuple(name for name in DETAILS if name != PAST), None, MOST_BUFFERS)


class Shown(NamedTuple):
    """The snapshot on the screen, and what the feed was asked for."""

    snapshot: Snapshot
    question: Question
    missing: str = ""

    def answers(self, question: Question) -> bool:
        """Everything that the question asks for was asked."""
        known = self.question
        if not question.detail:
            return True
        return set(question.detail) <= set(known.detail) and known.device in (None, question.device)


class LiveData:
    """Turns readings into what is shown, and decides what to ask the feed for next."""

    def __init__(self, choice: Choice, clock: Callable[[], float] = time.monotonic) -> None:
        self.shown: Shown | None = None
        self.problem: str | None = None
        self.idle = False
        self.beats = 0
        self._choice = choice
        self._clock = clock
        self._arrived: float | None = None
        self._history = SampleHistory()
        self._sensors = {
            one.name: SampleHistory(("time_ns", "value"), partial(measured, one.name))
            for one in SENSORS
        }
        self._past_wanted = True
        self._held: Mapping[str, Series] | None = None  # history while paused
        self._complete = False  # the paused snapshot has every detail

    @property
    def pids(self) -> tuple[int, ...]:
        """The processes of the choice; none: all."""
        return self._choice.pids

    @property
    def age(self) -> float | None:
        """Seconds since the feed's last snapshot."""
        return None if self._arrived is None else max(self._clock() - self._arrived, 0.0)

    @property
    def history(self) -> Mapping[str, Series]:
        """The history up to the snapshot that is shown."""
        return self._history.series if self._held is None else self._held

    @property
    def sensors(self) -> Mapping[str, Mapping[str, Series]]:
        """By sensor and unique id."""
        return {name: history.series for name, history in self._sensors.items()}

    def question(self, wanted: Question) -> Question:
        """What to ask the feed for, given what the page wants.

        History is asked for once, and again after trouble, but never with the first snapshot: an
        hour of 32 devices is 9 MB.
        """
        if self._held is not None:
            return Question() if self._complete else EVERYTHING
        if self._past_wanted and self.beats:
            return wanted._replace(detail=(*wanted.detail, PAST))
        return wanted

    def forget_history(self) -> None:
        """Another instant of a recording is shown: its history is asked for again."""
        self._past_wanted = True

    def hold(self) -> None:
        """Pauses on this snapshot; the next reading adds the missing details."""
        self._held, self._complete = self._history.copy(), False

    def release(self) -> None:
        self._held = None

    def take(self, readings: Iterable[Reading[Question, Snapshot]]) -> None:
        """What the feed said, oldest first."""
        for reading in readings:
            self.problem, self.idle = reading.problem, reading.idle
            if reading.answer is None:
                self._past_wanted = True
                if self.idle and self._held is None:
                    self.shown, self._arrived = None, reading.arrived
            else:
                self._arrived = reading.arrived
                self.beats += 1
                self._learn(reading.question, reading.answer)
                self._show(reading.question, in_order(reading.answer))

    def _learn(self, question: Question, snapshot: Snapshot) -> None:
        if PAST in question.detail:
            self._history.begin(snapshot.history)
            self._past_wanted = False
        for history in (self._history, *self._sensors.values()):
            history.add(snapshot)

    def _show(self, question: Question, snapshot: Snapshot) -> None:
        if self._held is not None and self.shown is not None:
            if self._complete or question != EVERYTHING:
                return
            snapshot = _with_events_of(self.shown.snapshot, snapshot)
            self._complete = True
        part, missing = self._choice.of(snapshot)
        self.shown = Shown(part, question, missing)


def _with_events_of(earlier: Snapshot, snapshot: Snapshot) -> Snapshot:
    """A paused list of events keeps those that were on the screen."""
    return snapshot if earlier.events is None else replace(snapshot, events=earlier.events)


def wanted(details: Sequence[str], device: str | None) -> Question:
    """The question of a page, without history."""
    limit = MOST_BUFFERS if "buffers" in details else LIMIT
    return Question(tuple(name for name in details if name != PAST), device, limit)
