"""Reads the regions of the probe beside the loop, so that no event of a socket waits for a file."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable

from ttmem.events import Remark
from ttmem.sources.probe.ended import remove_expired
from ttmem.sources.probe.watcher import ProbeReading, ProbeWatcher

LAST_PATIENCE = 0.2  # seconds
PERIOD = 0.15  # seconds; the smallest ring by default lasts that long with 16 busy threads
SHORT_PERIOD = 0.01
CLEANING_PERIOD = 60.0


class ProbeWatch:
    """A thread that follows all regions of a folder; `wake` tells that there is news.

    Nothing is dropped between two readings: while the loop has not taken one, there is no next.
    """

    def __init__(self, folder: str, wake: Callable[[], None]) -> None:
        self._folder = folder
        self._watcher = ProbeWatcher(folder)
        self._wake = wake
        self._news: deque[ProbeReading] = deque()
        self._doubted: deque[str] = deque()
        self._faulty: deque[str] = deque()
        self._behind = False  # one look was not enough
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="probe regions", daemon=True)
        self._thread.start()

    def take(self) -> ProbeReading | None:
        """The latest reading, once."""
        return self._news.popleft() if self._news else None

    def rebuild(self, paths: Iterable[str]) -> None:
        """The live tables of these regions are to be read."""
        self._doubted.extend(paths)

    def set_aside(self, paths: Iterable[str]) -> None:
        """These regions are not read for a while."""
        self._faulty.extend(paths)

    def close(self) -> None:
        """Ends the thread, or leaves it to the end of the process if that takes long."""
        self._stop.set()
        self._thread.join(LAST_PATIENCE)
        if not self._thread.is_alive():
            self._watcher.close()

    def _run(self) -> None:
        cleaned = float("-inf")
        while not self._stop.is_set():
            try:
                if time.monotonic() - cleaned >= CLEANING_PERIOD:
                    cleaned = time.monotonic()
                    remove_expired(self._folder)
                if not self._news:
                    self._read()
            except Exception as problem:  # the thread is for all regions: it goes on
                text = f"the regions of {self._folder} cannot be read: {problem!r:.200}"
                self._news.append(ProbeReading(remarks=(Remark("probe_region", text),)))
            self._stop.wait(SHORT_PERIOD if self._behind else PERIOD)

    def _read(self) -> None:
        while self._doubted:
            self._watcher.rebuild(self._doubted.popleft())
        while self._faulty:
            self._watcher.set_aside(self._faulty.popleft())
        reading = self._watcher.read()
        self._behind = bool(reading.behind)
        self._news.append(reading)
        if reading.news or reading.remarks:
            self._wake()
