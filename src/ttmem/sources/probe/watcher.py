"""Follows all regions of a directory, and of containers, while processes come and go.

Any user can create regions, and `ttmem serve` may read those of all users. So each user gets a share of the processor
time of each read. If a user has more or larger regions than fit into it, only that user's regions wait.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

from ttmem.clock import now_ns
from ttmem.events import PROBE_CLOSED, Remark
from ttmem.events.probe_news import KilledProcess, ProbeNews
from ttmem.fast_dataclasses import dataclass, field
from ttmem.procfs import user_name
from ttmem.sizes import several
from ttmem.sources.containers import Container, Containers
from ttmem.sources.listing import CpuBudget
from ttmem.sources.probe.ended import final_news
from ttmem.sources.probe.reader import RegionReader
from ttmem.sources.probe.region_file import (
    MOST_PER_USER,
    BadRegion,
    ForeignRegion,
    NotReady,
    RegionEntry,
    RegionScan,
    TooMuch,
)
from ttmem.sources.shm import by_user, closed_file, fault

FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 300.0  # before trying again to read a region that failed
WITNESS_NS = 2_000_000_000  # a process seen alive within this time died now
SHARE_S = 0.05  # processor time per read for the regions of one user
MOST_REMARKS = 8  # per user
RegionId = tuple[str, int]  # path and inode: a process that calls exec creates a new region


@dataclass(frozen=True, slots=True)
class ProbeReading:
    news: tuple[ProbeNews, ...] = ()
    remarks: tuple[Remark, ...] = ()
    killed: tuple[KilledProcess, ...] = ()
    # Regions that have more to read, with their owners.
    behind: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Suspended:
    """A region that is not read until a time."""

    uid: int
    until: float
    pause: float
    remark: Remark | None = None


@dataclass(slots=True)
class ProbeWatcher:
    """Keeps a reader for each live process. Regions of processes that had ended before are not read."""

    folder: str | None = None  # None: the default directory
    # Selects regions, which are then read even if their process has ended. None: those of all live processes.
    wanted: Callable[[RegionReader], bool] | None = None
    containers: Containers | None = None  # whose regions are read as well
    since_ns: int = field(default_factory=now_ns)  # what older regions have overwritten is not lost
    _scan: RegionScan | None = None
    _inside: dict[Container, RegionScan] = field(default_factory=dict)
    _readers: dict[RegionId, RegionReader] = field(default_factory=dict)
    _ended: set[RegionId] = field(default_factory=set)
    _killed: dict[RegionId, KilledProcess] = field(default_factory=dict)
    _suspended: dict[RegionId, _Suspended] = field(default_factory=dict)
    _looked_ns: int = 0

    def read(self) -> ProbeReading:
        """What is new in all regions, up to a limit."""
        there, left_out = self._list()
        self._ended &= there.keys()
        self._killed = {
            region: killed for region, killed in self._killed.items() if region in there
        }
        self._suspended = {
            region: suspended for region, suspended in self._suspended.items() if region in there
        }
        # Apart for those inside containers: many run as root, and what they do must not delay root's own regions.
        budget = CpuBudget(SHARE_S)
        waiting: dict[str, None] = {}  # regions left for the next read
        remarks: list[tuple[int, Remark]] = []
        for region, name in there.items():
            user = (name.uid, name.container is not None)
            if self._is_known(region):
                continue
            if budget.is_spent(user):  # never for the first region of a user
                waiting[region[0]] = None
                continue
            with budget.of(user):
                self._open(region, name, remarks)
        news = []
        for region, reader in list(self._readers.items()):
            user = (reader.uid, reader.inside)
            if budget.is_spent(user):
                waiting[region[0]] = None
                continue
            with budget.of(user):
                news.append(self._look(region, reader, there, remarks))
        self._looked_ns = now_ns()
        # Those that waited come first next time.
        self._readers = dict(
            sorted(self._readers.items(), key=lambda item: item[0][0] not in waiting)
        )
        remarks += [
            (suspended.uid, suspended.remark)
            for suspended in self._suspended.values()
            if suspended.remark is not None
        ]
        owners = {path: name.uid for (path, _), name in there.items()}
        owners |= {reader.path: reader.uid for reader in self._readers.values()}
        behind = [*waiting, *(update.path for update in news if update.more)]
        return ProbeReading(
            tuple(news),
            tuple(_bounded(remarks, left_out)),
            tuple(self._killed.values()),
            {path: owners[path] for path in behind if path in owners},
        )

    def _list(self) -> tuple[dict[RegionId, RegionEntry], dict[int, int]]:
        """Region files, and by user how many more there are than are looked at."""
        self._scan = self._scan or RegionScan(self.folder)
        scans = [self._scan]
        if self.containers is not None:
            open_ones = [container for container in self.containers.look() if container.regions]
            self._inside = {
                container: self._inside.get(container) or RegionScan(container)
                for container in open_ones
            }
            scans += self._inside.values()
        there: dict[RegionId, RegionEntry] = {}
        left_out: dict[int, int] = {}
        for listing in [scan.look() for scan in scans]:
            there.update({(name.path, name.inode): name for name in listing.found.values()})
            for uid, count in listing.left_out.items():
                left_out[uid] = left_out.get(uid, 0) + count
        return there, left_out

    def rebuild(self, path: str) -> None:
        """Makes the next read take the live table of that region."""
        for reader in self._readers.values():
            if reader.path == path:
                reader.rebuild()

    def set_aside(self, path: str) -> None:
        """That region is not read for a while, each time for longer."""
        for region, reader in list(self._readers.items()):
            if reader.path == path:
                self._drop(region, reader)

    def close(self) -> None:
        """Closes all files; the next `read` starts over."""
        for reader in self._readers.values():
            reader.close()
        self._readers.clear()

    def _is_known(self, region: RegionId) -> bool:
        waits = region in self._suspended and time.monotonic() < self._suspended[region].until
        return waits or region in self._ended or region in self._readers

    def _drop(
        self, region: RegionId, reader: RegionReader, remark: Remark | None = None
    ) -> ProbeNews:
        reader.close()
        del self._readers[region]
        before = self._suspended[region].pause if region in self._suspended else FIRST_PAUSE_S / 2
        pause = min(2 * before, LONGEST_PAUSE_S)
        self._suspended[region] = _Suspended(reader.uid, time.monotonic() + pause, pause, remark)
        return ProbeNews(reader.facts, reader.path, refused=True)

    def _open(self, region: RegionId, name: RegionEntry, remarks: list[tuple[int, Remark]]) -> None:
        try:
            since_ns = 0 if region in self._suspended else self.since_ns
            reader = RegionReader(name.path, name.container, since_ns)
        except NotReady:
            return
        except BadRegion as problem:
            remarks.append((name.uid, _why_not(name, problem)))
            return
        except Exception as problem:
            remarks.append((name.uid, fault("probe_region", name.path, problem, name.pid)))
            return
        wanted = self.wanted is None or self.wanted(reader)
        if wanted and (self.wanted is not None or reader.alive()):
            self._readers[region] = reader
        elif not wanted:
            reader.close()
            self._ended.add(region)
        else:
            if not reader.region.in_order():
                words = partial(final_news, name.path, name.container)
                ended_ns = reader.region.header().ended_ns
                self._killed[region] = KilledProcess(
                    reader.facts.pid, name.path, words, ended_ns, reader.user
                )
            reader.close()
            self._ended.add(region)

    def _look(
        self,
        region: RegionId,
        reader: RegionReader,
        there: Mapping[RegionId, RegionEntry],
        remarks: list[tuple[int, Remark]],
    ) -> ProbeNews:
        # A deleted file can still be read. It is replaced if its process calls exec, or when it is compacted.
        alive, now = reader.alive(), now_ns()
        replaced = region not in there and any(path == region[0] for path, _ in there)
        try:
            if not alive and now - self._looked_ns < WITNESS_NS:
                reader.region.note_death(now)
            news = reader.read(replaced or not alive)
        except BadRegion as problem:
            remark = Remark("probe_region", str(problem), reader.facts.pid, path=region[0])
            if isinstance(problem, TooMuch):
                return self._drop(region, reader, remark)
            remarks.append((reader.uid, remark))
            news = ProbeNews(reader.facts, reader.path, ended=True)
        except Exception as problem:
            return self._drop(
                region, reader, fault("probe_region", region[0], problem, reader.facts.pid)
            )
        if news.ended:
            reader.close()
            del self._readers[region]
            if replaced or not alive:
                self._ended.add(region)
        elif not news.more and news.events:
            self._suspended.pop(region, None)
        return news


def _bounded(
    remarks: Iterable[tuple[int, Remark]], left_out: Mapping[int, int]
) -> Iterator[Remark]:
    """Some for each user, and the number of further ones."""
    of_user: dict[int, list[Remark]] = {}
    for uid, remark in remarks:
        of_user.setdefault(uid, []).append(remark)
    for uid, found in of_user.items():
        grouped = by_user(found)
        yield from grouped[:MOST_REMARKS]
        if len(grouped) > MOST_REMARKS:
            more = several(len(grouped) - MOST_REMARKS, "more region")
            yield Remark("probe_region", f"{more} of user {user_name(uid)} cannot be read")
    for uid, count in left_out.items():
        files = several(count, "more file")
        text = f"{files} ttmem_* of user {user_name(uid)} are not read: {MOST_PER_USER} of each user is the limit"
        yield Remark("probe_region", text)


def _why_not(name: RegionEntry, problem: BadRegion) -> Remark:
    if isinstance(problem.__cause__, PermissionError) and name.container is None:
        return closed_file(PROBE_CLOSED, name.path, name.pid)
    kind = "foreign_probe_region" if isinstance(problem, ForeignRegion) else "probe_region"
    user = user_name(name.uid) or "unknown"
    text = str(problem) if user in str(problem) else f"{problem} (it belongs to user {user})"
    return Remark(kind, text, name.pid, path=name.path)
