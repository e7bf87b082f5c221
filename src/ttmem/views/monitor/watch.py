"""The feed as the monitor sees it: read in a thread, narrowed to the choice, live or paused, with its history."""

from __future__ import annotations

import threading
import time
from array import array
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from queue import SimpleQueue
from typing import NamedTuple

from ttmem.errors import NothingToRead, TtmemError
from ttmem.feeds import Feed
from ttmem.snapshots import DETAILS, Device, MemoryHistory, Snapshot
from ttmem.views.monitor.chart import SENSORS
from ttmem.views.monitor.state import Series
from ttmem.views.names import in_order
from ttmem.views.selection import idle_sentence, is_device, none_of, select, without_idle

RETRY = 0.5  # seconds at least between two attempts while there is trouble
PARTING = 0.2  # seconds to wait for the thread at the end; one that hangs dies with the process


class Question(NamedTuple):
    """What to ask the feed for (`Feed.read`)."""

    detail: tuple[str, ...] = ()
    device: str | None = None
    limit: int | None = None


class Reading(NamedTuple):
    """One answer of the feed: a snapshot, or what was wrong."""

    question: Question
    arrived: float  # of the monotonic clock
    snapshot: Snapshot | None = None
    problem: str | None = None
    idle: bool = False  # there is nothing to read, because no program uses a device


class Follower:
    """Reads the feed in a thread and queues what it reads; `notify` is called in that thread after each."""

    def __init__(
        self, feed: Feed, ask: Callable[[], Question], interval: Callable[[], float]
    ) -> None:
        self.notify: Callable[[], None] = lambda: None
        self._feed = feed
        self._ask = ask
        self._interval = interval
        self._readings: SimpleQueue[Reading] = SimpleQueue()
        self._wake = threading.Event()
        self._arrived = threading.Event()
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="ttmem-feed", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread; if the feed hangs, it ends with the process."""
        self._ended = True
        self._wake.set()
        self._thread.join(PARTING)

    def hurry(self) -> None:
        """Reads now, because the question or the interval has changed."""
        self._wake.set()

    def wait(self, seconds: float) -> None:
        """Waits for a reading, at most that long."""
        self._arrived.wait(seconds)

    def readings(self) -> list[Reading]:
        """What has arrived since the last call, oldest first."""
        self._arrived.clear()
        out = []
        while not self._readings.empty():
            out.append(self._readings.get())
        return out

    def _run(self) -> None:
        while not self._ended:
            begun = time.monotonic()
            reading = self._read()
            self._readings.put(reading)
            self._arrived.set()
            self.notify()
            pause = max(self._interval(), RETRY if reading.problem else 0.0)
            self._wake.wait(max(0.0, begun + pause - time.monotonic()))
            self._wake.clear()
        self._feed.close()

    def _read(self) -> Reading:
        question = self._ask()
        try:
            snapshot = self._feed.read(
                question.detail, device=question.device, limit=question.limit
            )
        except NothingToRead:
            return Reading(question, time.monotonic(), idle=True)
        except TtmemError as trouble:
            return Reading(question, time.monotonic(), problem=str(trouble))
        except Exception as trouble:  # unforeseen garbage: the next read connects again
            self._feed.close()
            problem = f"the {self._feed.name} answers nonsense: {type(trouble).__name__}: {trouble}"
            return Reading(question, time.monotonic(), problem=problem)
        return Reading(question, time.monotonic(), snapshot)


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


SECONDS = 3600
MOST_DEVICES = 256  # beyond that, devices that are not in the snapshot are forgotten

_SECOND_NS = 1_000_000_000
_LARGEST = (1 << 63) - 1
_Columns = dict[str, "array[int]"]


class History:
    """Samples by unique id, at most one a second. A device that vanishes keeps its past for an hour."""

    def __init__(
        self,
        names: Sequence[str] = MemoryHistory._fields,
        sample: Callable[[Device], tuple[int, ...] | None] | None = None,
    ) -> None:
        self._devices: dict[str, _Columns] = {}
        self._names = names
        self._sample = sample or _held

    @property
    def series(self) -> Mapping[str, Series]:
        """By unique id; it grows with the next `add`."""
        return self._devices

    def copy(self) -> Mapping[str, Series]:
        """The series as they are now, for a screen that is paused."""
        return {
            unique_id: {name: column[:] for name, column in columns.items()}
            for unique_id, columns in self._devices.items()
        }

    def begin(self, history: Mapping[str, MemoryHistory] | None) -> None:
        """Takes the feed's past (`--detail history`). What is damaged there keeps what was known here."""
        for unique_id, columns in (history or {}).items():
            past = _read(columns)
            if past is not None:
                self._devices[unique_id] = past

    def add(self, snapshot: Snapshot) -> None:
        """Appends one sample per device, if a new second has begun."""
        now = snapshot.time_ns
        for device in snapshot.devices:
            values = self._sample(device)
            if values is None:
                continue
            columns = self._devices.setdefault(device.unique_id, self._empty())
            _drop_future(columns, now)
            times = columns["time_ns"]
            if times and times[-1] // _SECOND_NS == now // _SECOND_NS:
                continue
            sample = (now, *values)
            if not 0 <= min(sample) <= max(sample) <= _LARGEST:
                continue  # no amount that a device could hold
            for column, value in zip(columns.values(), sample, strict=True):
                column.append(value)
        self._forget(snapshot)

    def _empty(self) -> _Columns:
        return {name: array("q") for name in self._names}

    def _forget(self, snapshot: Snapshot) -> None:
        """Samples older than an hour, and devices that have none left."""
        oldest = snapshot.time_ns - SECONDS * _SECOND_NS
        crowded = len(self._devices) > MOST_DEVICES
        present = {device.unique_id for device in snapshot.devices} if crowded else set()
        for unique_id, columns in list(self._devices.items()):
            times = columns["time_ns"]
            while times and (times[0] <= oldest or len(times) > SECONDS):
                for column in columns.values():
                    del column[0]
            if not times or (crowded and unique_id not in present):
                del self._devices[unique_id]


def _held(device: Device) -> tuple[int, ...]:
    memory = device.memory
    held = (memory.dram.held, memory.l1.held, memory.l1_small.held, memory.trace.held)
    return (*held, memory.cb.used, device.l1_used)


def _measured(sensor: str, device: Device) -> tuple[int, ...] | None:
    """In tenths; None if the sensor is unknown, or its card hangs."""
    telemetry = device.telemetry
    value = None if telemetry is None or telemetry.stale else getattr(telemetry, sensor)
    return None if value is None else (round(10 * value),)


def _drop_future(columns: _Columns, now: int) -> None:
    """After a clock was set back, or a recording rewound, later samples are wrong."""
    times = columns["time_ns"]
    keep = len(times)
    while keep and times[keep - 1] > now:
        keep -= 1
    if keep < len(times):
        for column in columns.values():
            del column[keep:]


def _read(columns: MemoryHistory) -> _Columns | None:
    """None if it is no history: columns of one length, times in order."""
    try:
        out = {name: array("q", column)[-SECONDS:] for name, column in columns._asdict().items()}
    except OverflowError:
        return None
    times = out["time_ns"]
    whole = {len(column) for column in out.values()} == {len(times)}
    ordered = all(earlier < later for earlier, later in pairwise(times))
    return out if whole and ordered else None


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


class Watch:
    """Turns readings into what is shown, and decides what to ask the feed for next."""

    def __init__(self, choice: Choice, clock: Callable[[], float] = time.monotonic) -> None:
        self.shown: Shown | None = None
        self.problem: str | None = None
        self.idle = False
        self.beats = 0
        self._choice = choice
        self._clock = clock
        self._arrived: float | None = None
        self._history = History()
        self._sensors = {
            one.name: History(("time_ns", "value"), partial(_measured, one.name)) for one in SENSORS
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

    def take(self, readings: Iterable[Reading]) -> None:
        """What the feed said, oldest first."""
        for reading in readings:
            self.problem, self.idle = reading.problem, reading.idle
            if reading.snapshot is None:
                self._past_wanted = True
                if self.idle and self._held is None:
                    self.shown, self._arrived = None, reading.arrived
            else:
                self._arrived = reading.arrived
                self.beats += 1
                self._learn(reading.question, reading.snapshot)
                self._show(reading.question, in_order(reading.snapshot))

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
