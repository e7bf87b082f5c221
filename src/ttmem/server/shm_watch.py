"""Reads shared memory beside the loop, so that no event waits for a file."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from ttmem.sources.shared_memory import Reading, SharedMemory
from ttmem.sources.shared_memory.capacity import Capacities
from ttmem.sources.umd import Discovery

PERIOD = 0.5  # seconds; half of the second within which a killed process must be gone


class ShmWatch:
    """A thread that reads the regions of a folder again and again; `wake` tells that there is news."""

    def __init__(
        self, folder: str, wake: Callable[[], None], discovery: Discovery | None = None
    ) -> None:
        self._source = SharedMemory(folder, capacities=Capacities(discovery=discovery))
        self._wake = wake
        self._news: deque[Reading] = deque(maxlen=1)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="shared memory", daemon=True)
        self._thread.start()

    def take(self) -> Reading | None:
        """The latest reading, once."""
        return self._news.popleft() if self._news else None

    def close(self) -> None:
        """Ends the thread."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            self._news.append(self._source.read())
            self._wake()
            self._stop.wait(PERIOD)
