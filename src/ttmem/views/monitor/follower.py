"""Reads a feed again and again in a thread of its own, so that a feed that hangs never holds a key."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue

from ttmem.errors import TtmemError
from ttmem.feeds import Feed
from ttmem.snapshots import Snapshot

RETRY = 0.5  # seconds at least between two attempts while there is trouble
PARTING = 0.2  # seconds to wait for the thread at the end; one that hangs dies with the process


@dataclass(frozen=True, slots=True)
class Question:
    """What to ask the feed for (`Feed.read`)."""

    detail: tuple[str, ...] = ()
    device: str | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """One answer of the feed: a picture, or what was wrong."""

    question: Question
    arrived: float  # of the monotonic clock
    snapshot: Snapshot | None = None
    problem: str | None = None


class Follower:
    """Puts readings into a queue; `notify` is called in its thread after each."""

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
        """Begins to read."""
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread, unless the feed hangs: then it ends with the process."""
        self._ended = True
        self._wake.set()
        self._thread.join(PARTING)

    def hurry(self) -> None:
        """Asks now: another question, or another interval."""
        self._wake.set()

    def wait(self, seconds: float) -> None:
        """Until a reading is there, or the time is over."""
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
            picture = self._feed.read(question.detail, device=question.device, limit=question.limit)
        except TtmemError as trouble:
            return Reading(question, time.monotonic(), problem=str(trouble))
        except Exception as trouble:  # garbage that no check foresaw: the next read connects anew
            self._feed.close()
            words = f"the {self._feed.name} answers nonsense: {type(trouble).__name__}: {trouble}"
            return Reading(question, time.monotonic(), problem=words)
        return Reading(question, time.monotonic(), picture)
