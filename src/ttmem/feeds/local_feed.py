"""Snapshots without a server, from this host's own shared memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ttmem.clock import now_ns
from ttmem.errors import NothingToRead
from ttmem.events import Remark
from ttmem.feeds.feed import checked
from ttmem.snapshots import Snapshot
from ttmem.sources.shm import has_regions, probe_directory
from ttmem.version import __version__

if TYPE_CHECKING:
    from ttmem.hw.umd import Discovery
    from ttmem.recording.memory import Memory
    from ttmem.recording.recorder import Recorder
    from ttmem.recording.writer import Sink
    from ttmem.sources.probe.reader import RegionReader
    from ttmem.sources.probe.watcher import ProbeWatcher

SECOND_NS = 1_000_000_000
LONGEST_READING_S = 10.0  # of the processor, for all regions
SLACK_NS = 50_000_000  # a caller that comes once a second comes a little early at times


def is_blank(snapshot: Snapshot) -> bool:
    """Nothing was found."""
    return not (snapshot.devices or snapshot.processes or snapshot.left_behind or snapshot.remarks)


class LocalFeed:
    """Reads counters and probe regions in `folder` (None: the usual ones), and keeps a history of them.

    Counters have sums only: where no process is watched by the probe, of the details there is history,
    and no other key. `alone`: nobody else is asked, so a folder with nothing to read is an error.
    `discovery`: asks the user-mode driver what chips there are. `wanted`: reads no counters, and only these regions.
    """

    def __init__(
        self,
        folder: str | None = None,
        *,
        alone: bool = False,
        discovery: Discovery | None = None,
        wanted: Callable[[RegionReader], bool] | None = None,
    ) -> None:
        # Imported here, since asking a server needs neither ledger nor native code.
        from ttmem.hw.discovery import Capacities
        from ttmem.ledger import Books
        from ttmem.sources.counters.proc_scan import ProcScanner
        from ttmem.sources.counters.source import CounterSource
        from ttmem.sources.shm import counter_directory

        self.folder = counter_directory(folder)
        self._make_books = partial(Books, watchful=False)
        self._books = self._make_books()
        self._source = CounterSource(
            self.folder,
            scanner=ProcScanner(hurried=True),
            capacities=Capacities(discovery=discovery),
        )
        self._probe_folder = probe_directory(folder)
        self._probes: ProbeWatcher | None = None  # until there is a region to read
        self._wanted = wanted
        self.recorder: Recorder | None = None  # of what is read
        self._ticked = 0
        self._alone = alone

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
        now = self.poll(remarks)
        snapshot = self._books.snapshot(now, self._host)
        if self._alone and is_blank(snapshot):
            raise NothingToRead(self.why_blank())
        return self._with_details(snapshot, wanted, device, limit)

    @property
    def _host(self) -> dict[str, str]:
        return {"ttmem": __version__, "shared_memory": self.folder}

    def poll(self, remarks: Iterable[Remark] = ()) -> int:
        """Reads what is new, and says when."""
        now = self._look(remarks)
        if abs(now - self._ticked) >= SECOND_NS - SLACK_NS:
            self._books.tick(now)
            self._ticked = now
        if self.recorder is not None:
            self.recorder.tick(now)
        return now

    def record(
        self, sink: Sink, about: Mapping[str, Any], *, confidential: bool = False
    ) -> Recorder:
        """Records whatever is read from now on; `poll` reads."""
        from ttmem.recording.recorder import Recorder

        self._books.watchful = True  # whoever records reads counters all the time
        self.recorder = Recorder(
            self._books, sink, about, host=self._host, confidential=confidential
        )
        return self.recorder

    def remember(self, memory: Memory) -> Recorder:
        """As `record`, for somebody who reads what was recorded, too."""
        from ttmem.recording.memory import MemoryRecorder
        from ttmem.recording.recorder import described

        self.recorder = MemoryRecorder(self._books, memory, described(), host=self._host)
        return self.recorder

    def watches(self, pid: int) -> bool:
        """Whether the last look has found a live process that tells its events."""
        return any(process.pid == pid for process in self._books.processes.values())

    def end_recording(self) -> None:
        """Ends what `record` began; reading goes on."""
        recorder, self.recorder = self.recorder, None
        if recorder is not None:
            recorder.close()

    def _look(self, remarks: Iterable[Remark]) -> int:
        watched = self._look_at_probes()
        if self._wanted is not None:
            return now_ns()
        counters = self._source.read()
        now = now_ns()
        said = (*remarks, *counters.remarks, *watched)
        self._books.sample(counters.devices, said, now)
        return now

    def _look_at_probes(self) -> Sequence[Remark]:
        """Takes what watched processes did into the books; what there is to remark on them."""
        if self._probes is None:
            if not has_regions(self._probe_folder):
                return ()
            # Imported here, since most hosts have none, and `ttmem ps` should start fast.
            from ttmem.sources.probe.cleanup import remove_expired
            from ttmem.sources.probe.watcher import ProbeWatcher

            remove_expired(self._probe_folder)
            self._probes = ProbeWatcher(self._probe_folder, self._wanted)
        began, behind = time.thread_time(), None
        while behind is None or behind:
            reading, books = self._probes.read(), self._books.probed
            books.take(reading.news, now_ns(), reading.killed)
            # One look takes so much of each user's regions; a snapshot covers everything, so it takes some more.
            behind = {*reading.behind} if behind is None else behind & {*reading.behind}
            if time.thread_time() - began > LONGEST_READING_S:
                books.give_up(behind, now_ns())
                behind.clear()
            for path in books.take_faulty():
                self._probes.set_aside(path)
        for path in books.doubted():
            self._probes.rebuild(path)
        return reading.remarks

    def _with_details(
        self, snapshot: Snapshot, wanted: list[str], device: str | None, limit: int | None
    ) -> Snapshot:
        # The events of a process that has ended are what one wants to read of it.
        listed = self._books.processes or self._books.recent
        known = wanted if listed else [key for key in wanted if key == "history"]
        if not known:
            return snapshot
        from ttmem.ledger.details import Narrow

        return self._books.details(known, Narrow(device, limit)).add_all(snapshot)

    def why_blank(self) -> str:
        """Why a snapshot contains nothing."""
        if has_regions(self._probe_folder):
            return (
                f"all watched processes with a region in {self._probe_folder} have ended;"
                " `ttmem dump` has what they never freed"
            )
        return (
            "no process has opened a device with stock ttnn, which would leave a file"
            f" tt_device_*_memory in {self.folder}"
        )

    def close(self) -> None:
        """Gives the probe's regions back; what was known of them goes too, for a later `read` finds them anew."""
        if self._probes is not None:
            self._probes.close()
        self._books = self._make_books()
        self.recorder = None
