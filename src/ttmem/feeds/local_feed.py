"""Pictures with no server: this host's own shared memory, read anew for each."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from ttmem import __version__
from ttmem.events import Remark
from ttmem.feeds.feed import checked
from ttmem.snapshots import Snapshot

SECOND_NS = 1_000_000_000
SLACK_NS = 50_000_000  # a caller that comes once a second comes a little early at times


class LocalFeed:
    """Reads the counters in `folder` (None: the usual one), and keeps a history of what it read.

    Counters have sums only: of the details there is history, and no other key.
    """

    def __init__(self, folder: str | None = None) -> None:
        # Here, and not at the top: asking a server needs neither accounts nor native code.
        from ttmem.ledger import Books
        from ttmem.sources.shared_memory import SharedMemory
        from ttmem.sources.shared_memory.folder import shm_folder

        self.folder = shm_folder(folder)
        self._books = Books()
        self._source = SharedMemory(self.folder)
        self._ticked = 0

    @property
    def name(self) -> str:
        """'shared memory /dev/shm'."""
        return f"shared memory {self.folder}"

    def read(
        self,
        detail: Iterable[str] = (),
        *,
        device: str | None = None,
        limit: int | None = None,
        remarks: Iterable[Remark] = (),
    ) -> Snapshot:
        """See `Feed.read`; `remarks` are added to those of the host."""
        wanted = checked(detail)
        reading = self._source.read()
        now = time.time_ns()
        self._books.sample(reading.devices, (*remarks, *reading.remarks), now)
        if abs(now - self._ticked) >= SECOND_NS - SLACK_NS:
            self._books.tick(now)
            self._ticked = now
        host = {"ttmem": __version__, "shared_memory": self.folder}
        picture = self._books.snapshot(now, host)
        details: dict[str, Any] = {}
        if "history" in wanted:
            details["history"] = self._books.history(device)
        return replace(picture, detail=details)

    def close(self) -> None:
        """Files are open only while they are read."""
