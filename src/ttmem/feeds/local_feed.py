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
from ttmem.snapshots.detail import expand

SECOND_NS = 1_000_000_000
SLACK_NS = 50_000_000  # a caller that comes once a second comes a little early at times


class LocalFeed:
    """Reads counters and probe regions in `folder` (None: the usual ones), and keeps a history of them.

    Counters have sums only: where no process is watched by the probe, of the details there is history,
    and no other key.
    """

    def __init__(self, folder: str | None = None) -> None:
        # Here, and not at the top: asking a server needs neither accounts nor native code.
        from ttmem.ledger import Books
        from ttmem.sources.probes import ProbeWatcher, probe_folder, remove_expired
        from ttmem.sources.shared_memory import HoldersWatch, SharedMemory
        from ttmem.sources.shared_memory.folder import shm_folder

        self.folder = shm_folder(folder)
        self._make_books = Books
        self._books = Books()
        self._source = SharedMemory(self.folder, holders=HoldersWatch(hurried=True))
        self._probes = ProbeWatcher(probe_folder(folder))
        self._ticked = 0
        remove_expired(self._probes.folder)

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
        now = self._look(remarks)
        if abs(now - self._ticked) >= SECOND_NS - SLACK_NS:
            self._books.tick(now)
            self._ticked = now
        host = {"ttmem": __version__, "shared_memory": self.folder}
        picture = self._books.snapshot(now, host)
        return replace(picture, detail=self._details(wanted, device, limit))

    def _look(self, remarks: Iterable[Remark]) -> int:
        probes = self._probes.read()
        counters = self._source.read()
        now = time.time_ns()
        self._books.probed.take(probes.news, now)
        for path in self._books.probed.doubted():
            self._probes.rebuild(path)
        said = (*remarks, *counters.remarks, *probes.remarks)
        self._books.sample(counters.devices, said, now)
        return now

    def _details(self, wanted: list[str], device: str | None, limit: int | None) -> dict[str, Any]:
        from ttmem.ledger.details import Details, Narrow

        known = wanted if self._books.processes else [key for key in wanted if key == "history"]
        details = Details(self._books, Narrow(device, limit))
        rows = details.attachments(known)
        return {**details.documents(known), **expand(details.names(rows), rows)}

    def close(self) -> None:
        """Gives the probe's regions back; what was known of them goes too, for a later `read` finds them anew."""
        self._probes.close()
        self._books = self._make_books()
