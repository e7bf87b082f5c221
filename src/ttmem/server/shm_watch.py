"""Reads shared memory beside the loop, so that no event waits for a file."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from ttmem.events import Remark
from ttmem.hw.discovery import Capacities
from ttmem.hw.umd import Discovery
from ttmem.sources.counters.source import CounterReading, CounterSource

LAST_PATIENCE = 0.2  # seconds
PERIOD = 0.5  # seconds; half of the second within which a killed process must be gone


class ShmWatch:
    """A thread that reads the regions of a folder again and again; `wake` tells that there is news."""

    def __init__(
        self, folder: str, wake: Callable[[], None], discovery: Discovery | None = None
    ) -> None:
        self._source = CounterSource(folder, capacities=Capacities(discovery=discovery))
        self._folder = folder
        self._wake = wake
        self._news: deque[CounterReading] = deque(maxlen=1)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="shared memory", daemon=True)
        self._thread.start()

    def take(self) -> CounterReading | None:
        """The latest reading, once."""
        return self._news.popleft() if self._news else None

    def close(self) -> None:
        """Ends the thread, or leaves it to the end of the process if that takes long."""
        self._stop.set()
        self._thread.join(LAST_PATIENCE)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                reading = self._source.read()
            except Exception as problem:  # the thread is for all regions: it goes on
                text = f"the counters of {self._folder} cannot be read: {problem!r:.200}"
                reading = CounterReading((), (Remark("unreadable", text),))
            self._news.append(reading)
            self._wake()
            self._stop.wait(PERIOD)
