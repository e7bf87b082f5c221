"""Snapshots without a server, from this host's own shared memory."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ttmem.clock import now_ns
from ttmem.errors import NothingToRead
from ttmem.events import DeviceDeclaration, Remark
from ttmem.fast_dataclasses import replace
from ttmem.feeds.feed import Feed
from ttmem.snapshots import Question, Snapshot
from ttmem.sources.shm import has_regions, probe_directory
from ttmem.version import __version__

if TYPE_CHECKING:
    from ttmem.events.probe_news import ProbeNews
    from ttmem.hw.umd import Discovery
    from ttmem.recording.memory import ChunkMemory
    from ttmem.recording.recorder import Recorder
    from ttmem.recording.writer import Sink
    from ttmem.sources.probe.reader import RegionReader
    from ttmem.sources.probe.watcher import ProbeWatcher

SECOND_NS = 1_000_000_000
LONGEST_READING_S = 10.0  # CPU time for all regions
# For those of another user, who gets 50 ms of each: enough for a hundred regions with 10,000 buffers.
MOST_READINGS = 40
SLACK_NS = 50_000_000  # a caller that polls once a second is sometimes a little early


def is_blank(snapshot: Snapshot) -> bool:
    """Whether nothing was found."""
    return not (snapshot.devices or snapshot.processes or snapshot.left_behind or snapshot.remarks)


class LocalFeed(Feed):
    """Reads counters and probe regions in `folder` (None: the default ones), and keeps a history of them.

    Counters are sums: if the probe watches no process, history is the only detail. `alone`: there is no other feed, so
    a folder with nothing to read is an error. `discovery`: asks the user-mode driver which chips exist. `wanted`: reads
    no counters, and only these regions. `launched`: this process started those of the regions.
    """

    def __init__(
        self,
        folder: str | None = None,
        *,
        alone: bool = False,
        discovery: Discovery | None = None,
        wanted: Callable[[RegionReader], bool] | None = None,
        launched: bool = False,
    ) -> None:
        # Imported here, because querying a server needs neither ledger nor native code.
        from ttmem.hw.discovery import Capacities
        from ttmem.ledger import Books
        from ttmem.sources.containers import containers_beside
        from ttmem.sources.counters.proc_scan import ProcScanner
        from ttmem.sources.counters.source import CounterSource
        from ttmem.sources.shm import counter_directory

        self.folder = counter_directory(folder)
        self._containers = containers_beside(self.folder) if wanted is None else None
        self._make_books = partial(Books, watchful=False)
        self._books = self._make_books()
        self._capacities = Capacities(discovery=discovery)
        self._source = CounterSource(
            self.folder,
            scanner=ProcScanner(hurried=True),
            capacities=self._capacities,
            containers=self._containers,
        )
        self._probe_folder = probe_directory(folder)
        self._probes: ProbeWatcher | None = None  # until there is a region to read
        self._since_ns = now_ns()
        self._wanted = wanted
        # Of a process that has ended there is no environment to look at, but it had that of its launcher.
        self._launcher = ((os.getpid(), None),) if launched else ()
        self.recorder: Recorder | None = None  # of what is read
        self._ticked = 0
        self._alone = alone

    @property
    def name(self) -> str:
        return f"shared memory {self.folder}"

    def answer(self, question: Question, remarks: Iterable[Remark] = ()) -> Snapshot:
        """`remarks` are added to those of the host."""
        now = self.poll(remarks)
        snapshot = self._books.snapshot(now, self._host)
        if self._alone and is_blank(snapshot):
            raise NothingToRead.because(self.why_blank())
        return self._with_details(snapshot, question)

    @property
    def _host(self) -> dict[str, str]:
        return {"ttmem": __version__, "shared_memory": self.folder}

    def poll(self, remarks: Iterable[Remark] = ()) -> int:
        """Reads what is new; returns the time."""
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
        """Records what happens from now on, beginning with the present state; `poll` reads."""
        from ttmem.recording.recorder import Recorder

        self.poll()  # what regions still have of the past is no part of the recording
        self._books.watchful = True  # a recording needs all readings of the counters
        self.recorder = Recorder(
            self._books, sink, about, host=self._host, confidential=confidential
        )
        return self.recorder

    def remember(self, memory: ChunkMemory) -> Recorder:
        """Like `record`, for a caller that also reads what was recorded."""
        from ttmem.recording.memory import MemoryRecorder

        self.recorder = MemoryRecorder(self._books, memory, self._host)
        return self.recorder

    def watches(self, pid: int) -> bool:
        """Whether the last poll found a live process that reports events."""
        return any(process.pid == pid for process in self._books.processes.values())

    def end_recording(self) -> None:
        """Ends what `record` began; reading continues."""
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

    def _with_boards(self, news: ProbeNews) -> ProbeNews:
        """A region does not say on which board a device is. Where counters are read, they do."""
        if self._wanted is None or not news.devices:
            return news
        devices = tuple(self._on_board(declared, news.identity) for declared in news.devices)
        return replace(news, devices=devices)

    def _on_board(
        self, declared: DeviceDeclaration, process: tuple[int, int | None]
    ) -> DeviceDeclaration:
        from ttmem.ledger.devices import filled
        from ttmem.sources.counters.source import declaration

        number = declared.unique_id or ""
        if declared.board is not None or not number.isdecimal():
            return declared
        found = self._capacities.of(int(number), (process, *self._launcher))
        if found is None:
            return declared
        return filled(declared, declaration(found, int(number), declared.logical_id))

    def _look_at_probes(self) -> Sequence[Remark]:
        """Accounts the events of watched processes; returns the remarks on them."""
        if self._probes is None:
            inside = () if self._containers is None else self._containers.look()
            if not (
                any(container.regions for container in inside) or has_regions(self._probe_folder)
            ):
                return ()
            # Imported here, because most hosts have none, and `ttmem ps` should start fast.
            from ttmem.sources.probe.cleanup import remove_expired
            from ttmem.sources.probe.watcher import ProbeWatcher

            remove_expired(self._probe_folder)
            self._probes = ProbeWatcher(
                self._probe_folder, self._wanted, self._containers, self._since_ns
            )
        began, behind = time.thread_time(), None
        own, readings = {0, os.geteuid()}, 0
        while behind is None or behind:
            readings += 1
            reading, books = self._probes.read(), self._books.probed
            books.take(map(self._with_boards, reading.news), now_ns(), reading.killed)
            # One poll reads a limited amount per user. A snapshot must cover everything, so it polls again.
            behind = {*reading.behind} if behind is None else behind & {*reading.behind}
            if time.thread_time() - began > LONGEST_READING_S:
                books.give_up(behind, now_ns())
                behind.clear()
            elif readings >= MOST_READINGS:
                others = {path for path in behind if reading.behind[path] not in own}
                books.give_up(others, now_ns())
                behind -= others
            for path in books.take_faulty():
                self._probes.set_aside(path)
        for path in books.doubted():
            self._probes.rebuild(path)
        return reading.remarks

    def _with_details(self, snapshot: Snapshot, question: Question) -> Snapshot:
        # The events of a process that has ended are still of interest.
        listed = self._books.processes or self._books.recent
        if not listed:
            kept = tuple(key for key in question.detail if key == "history")
            question = question._replace(detail=kept)
        return self._books.details(question).add_all(snapshot) if question.detail else snapshot

    def why_blank(self) -> str:
        """Why a snapshot is empty."""
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
        """Closes the probe's regions and forgets their contents, since a later `read` starts over."""
        if self._probes is not None:
            self._probes.close()
        if self._containers is not None:
            self._containers.close()
        self._books = self._make_books()
        self.recorder = None
