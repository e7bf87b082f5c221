"""Threads that read shared memory beside the server's loop, so that no socket waits for a file."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from ttmem.events import Remark
from ttmem.hw.discovery import Capacities
from ttmem.hw.umd import Discovery
from ttmem.sources.containers import containers_beside
from ttmem.sources.counters.source import CounterReading, CounterSource
from ttmem.sources.probe.cleanup import remove_expired
from ttmem.sources.probe.watcher import ProbeReading, ProbeWatcher

COUNTER_PERIOD = 0.5  # seconds; half of the second within which a killed process must be gone
PROBE_PERIOD = 0.15  # seconds; the smallest default ring lasts that long with 16 busy threads
SHORT_PERIOD = 0.01  # while one reading is not enough to catch up
CLEANING_PERIOD = 60.0

R = TypeVar("R", CounterReading, ProbeReading)


class Watcher(ABC, Generic[R]):
    """A thread that reads periodically. `wake` tells the loop that there is a reading to `take`."""

    def __init__(self, name: str, wake: Callable[[], None], most: int | None = None) -> None:
        self._wake = wake
        self._readings: deque[R] = deque(maxlen=most)
        self._stop = threading.Event()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def take(self) -> R | None:
        """The latest reading, once."""
        return self._readings.popleft() if self._readings else None

    def stop(self) -> None:
        """Lets the thread end after its current reading, without waiting for that."""
        self._stop.set()

    def _run(self) -> None:
        while not self._stop.is_set():
            self._stop.wait(self._read())

    @abstractmethod
    def _read(self) -> float:
        """Reads once, and never raises; returns the seconds until the next time."""


class CounterWatcher(Watcher[CounterReading]):
    """Reads the counters of stock ttnn. A reading that the loop has not taken is replaced by the next."""

    def __init__(
        self, folder: str, wake: Callable[[], None], discovery: Discovery | None = None
    ) -> None:
        self._source = CounterSource(
            folder,
            capacities=Capacities(discovery=discovery),
            containers=containers_beside(folder),
        )
        self._folder = folder
        super().__init__("counters", wake, most=1)

    def _read(self) -> float:
        try:
            reading = self._source.read()
        except Exception as problem:
            text = f"the counters of {self._folder} cannot be read: {problem!r:.200}"
            reading = CounterReading((), (Remark("unreadable", text),))
        self._readings.append(reading)
        self._wake()
        return COUNTER_PERIOD


class ProbeRegionWatcher(Watcher[ProbeReading]):
    """Follows the regions of the probe. Events must not get lost, so it waits until the loop has taken a reading."""

    def __init__(self, folder: str, wake: Callable[[], None]) -> None:
        self._folder = folder
        # Each thread has containers of its own: they cost one look at /proc per second, and locks would cost clarity.
        self._watcher = ProbeWatcher(folder, containers=containers_beside(folder))
        self._rebuild: deque[str] = deque()
        self._set_aside: deque[str] = deque()
        self._cleaned = float("-inf")
        super().__init__("probe regions", wake)

    def rebuild(self, paths: Iterable[str]) -> None:
        """Has the live tables of these regions read again."""
        self._rebuild.extend(paths)

    def set_aside(self, paths: Iterable[str]) -> None:
        """Has these regions left alone for a while."""
        self._set_aside.extend(paths)

    def _run(self) -> None:
        super()._run()
        self._watcher.close()

    def _read(self) -> float:
        period = PROBE_PERIOD
        try:
            if time.monotonic() - self._cleaned >= CLEANING_PERIOD:
                self._cleaned = time.monotonic()
                remove_expired(self._folder)
            if self._readings:
                return period
            while self._rebuild:
                self._watcher.rebuild(self._rebuild.popleft())
            while self._set_aside:
                self._watcher.set_aside(self._set_aside.popleft())
            reading = self._watcher.read()
            period = SHORT_PERIOD if reading.behind else PROBE_PERIOD
        except Exception as problem:
            text = f"the regions of {self._folder} cannot be read: {problem!r:.200}"
            reading = ProbeReading(remarks=(Remark("probe_region", text),))
        self._readings.append(reading)
        if reading.news or reading.remarks:
            self._wake()
        return period
