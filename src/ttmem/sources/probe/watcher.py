"""All regions of a folder, followed: processes come and go, and so do their files.

Everybody may make regions, and `ttmem serve` may run for all of them. So each user has a share of the time of each
look: whoever has more regions, or larger ones, than fit into it waits, and nobody else does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from ttmem.clock import now_ns
from ttmem.events import PROBE_CLOSED, Remark
from ttmem.events.probe_news import KilledProcess, ProbeNews
from ttmem.procfs import user_name
from ttmem.sizes import several
from ttmem.sources.probe.ended import final_news
from ttmem.sources.probe.reader import RegionReader
from ttmem.sources.probe.region_file import (
    MOST_OF_A_USER,
    BadRegion,
    ForeignRegion,
    NotReady,
    RegionEntry,
    RegionScan,
    TooMuch,
)
from ttmem.sources.shm import by_user, closed_file

FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 300.0  # before a region is read again that could not be
WITNESS_NS = 2_000_000_000  # who looked at a process no longer ago saw it die
SHARE_S = 0.05  # of the processor, for the regions of one user in one look
MOST_REMARKS = 8  # on regions of one user
RegionId = tuple[str, int]  # path and inode: a process that execs makes its region anew


@dataclass(frozen=True, slots=True)
class ProbeReading:
    """One look at all regions."""

    news: tuple[ProbeNews, ...] = ()
    remarks: tuple[Remark, ...] = ()
    killed: tuple[KilledProcess, ...] = ()
    behind: tuple[str, ...] = ()  # regions that have more to tell: the next look goes on


@dataclass(frozen=True, slots=True)
class _Aside:
    """A region that is not read for a while."""

    uid: int
    until: float
    pause: float
    remark: Remark | None = None


@dataclass(slots=True)
class ProbeWatcher:
    """Keeps one follower for each live process. A region whose process had ended before is read if somebody asks."""

    folder: str | None = None  # None: the usual one
    # Which regions to read; those are read even if their process has ended already. None: all of live processes.
    wanted: Callable[[RegionReader], bool] | None = None
    _scan: RegionScan | None = None
    _followers: dict[RegionId, RegionReader] = field(default_factory=dict)
    _ended: set[RegionId] = field(default_factory=set)
    _killed: dict[RegionId, KilledProcess] = field(default_factory=dict)
    _aside: dict[RegionId, _Aside] = field(default_factory=dict)
    _looked_ns: int = 0

    def read(self) -> ProbeReading:
        """What is new in all of them, or as much of it as one look takes."""
        self._scan = self._scan or RegionScan(self.folder)
        names = self._scan.look()
        there = {(name.path, name.inode): name for name in names.found.values()}
        self._ended &= there.keys()
        self._killed = {region: one for region, one in self._killed.items() if region in there}
        self._aside = {region: one for region, one in self._aside.items() if region in there}
        shares = _Shares()
        remarks: list[tuple[int, Remark]] = []
        for region, name in there.items():
            if not (self._is_known(region) or shares.is_spent(name.uid, region[0])):
                with shares.of(name.uid):
                    self._open(region, name, remarks)
        news = []
        for region, follower in list(self._followers.items()):
            if not shares.is_spent(follower.uid, region[0]):
                with shares.of(follower.uid):
                    news.append(self._look(region, follower, there, remarks))
        self._looked_ns = now_ns()
        # Who has waited comes first next time.
        self._followers = dict(
            sorted(self._followers.items(), key=lambda one: one[0][0] not in shares.waiting)
        )
        remarks += [(one.uid, one.remark) for one in self._aside.values() if one.remark is not None]
        behind = [*shares.waiting, *(one.path for one in news if one.more)]
        return ProbeReading(
            tuple(news),
            tuple(_bounded(remarks, names.left_out)),
            tuple(self._killed.values()),
            tuple(behind),
        )

    def rebuild(self, path: str) -> None:
        """The next look at that region reads its live table."""
        for follower in self._followers.values():
            if follower.path == path:
                follower.rebuild()

    def set_aside(self, path: str) -> None:
        """That region is not read for a while, each time for longer."""
        for region, follower in list(self._followers.items()):
            if follower.path == path:
                self._drop(region, follower)

    def close(self) -> None:
        """Gives the files back; the next `read` begins anew."""
        for follower in self._followers.values():
            follower.close()
        self._followers.clear()

    def _is_known(self, region: RegionId) -> bool:
        waits = region in self._aside and time.monotonic() < self._aside[region].until
        return waits or region in self._ended or region in self._followers

    def _drop(
        self, region: RegionId, follower: RegionReader, remark: Remark | None = None
    ) -> ProbeNews:
        follower.close()
        del self._followers[region]
        before = self._aside[region].pause if region in self._aside else FIRST_PAUSE_S / 2
        pause = min(2 * before, LONGEST_PAUSE_S)
        self._aside[region] = _Aside(follower.uid, time.monotonic() + pause, pause, remark)
        return ProbeNews(follower.facts, follower.path, refused=True)

    def _open(self, region: RegionId, name: RegionEntry, remarks: list[tuple[int, Remark]]) -> None:
        try:
            follower = RegionReader(name.path)
        except NotReady:
            return
        except BadRegion as problem:
            remarks.append((name.uid, _why_not(name, problem)))
            return
        except Exception as problem:
            remarks.append((name.uid, _fault(name.path, name.pid, problem)))
            return
        wanted = self.wanted is None or self.wanted(follower)
        if wanted and (self.wanted is not None or follower.alive()):
            self._followers[region] = follower
        elif not wanted:
            follower.close()
            self._ended.add(region)
        else:
            if not follower.in_order:
                words = partial(final_news, name.path)
                ended_ns = follower.ended_ns
                self._killed[region] = KilledProcess(
                    follower.facts.pid, name.path, words, ended_ns, follower.user
                )
            follower.close()
            self._ended.add(region)

    def _look(
        self,
        region: RegionId,
        follower: RegionReader,
        there: Mapping[RegionId, RegionEntry],
        remarks: list[tuple[int, Remark]],
    ) -> ProbeNews:
        # A file that was deleted can still be read; one that was replaced is of a life before `exec`.
        alive, now = follower.alive(), now_ns()
        replaced = region not in there and any(path == region[0] for path, _ in there)
        try:
            if not alive and now - self._looked_ns < WITNESS_NS:
                follower.note_death(now)
            news = follower.look(replaced or not alive)
        except TooMuch as problem:
            remark = Remark("probe_region", str(problem), follower.facts.pid, path=region[0])
            return self._drop(region, follower, remark)
        except BadRegion as problem:
            remark = Remark("probe_region", str(problem), follower.facts.pid, path=region[0])
            remarks.append((follower.uid, remark))
            news = ProbeNews(follower.facts, follower.path, ended=True)
        except Exception as problem:
            return self._drop(region, follower, _fault(region[0], follower.facts.pid, problem))
        if news.ended:
            follower.close()
            del self._followers[region]
            if replaced or not alive:
                self._ended.add(region)
        elif not news.more and news.events:
            self._aside.pop(region, None)
        return news


class _Shares:
    """What each user has had of one look, by the processor's clock: a busy machine takes nothing from anybody."""

    def __init__(self) -> None:
        self._taken: dict[int, float] = {}
        self.waiting: dict[str, None] = {}  # regions, for the next look

    def is_spent(self, uid: int, path: str) -> bool:
        """The first region of everybody is always looked at."""
        if self._taken.get(uid, 0.0) < SHARE_S:
            return False
        self.waiting[path] = None
        return True

    @contextmanager
    def of(self, uid: int) -> Iterator[None]:
        """What happens inside is for that user."""
        before = time.thread_time()
        try:
            yield
        finally:
            self._taken[uid] = self._taken.get(uid, 0.0) + time.thread_time() - before


def _bounded(
    remarks: Iterable[tuple[int, Remark]], left_out: Mapping[int, int]
) -> Iterator[Remark]:
    """Some on the regions of each user, and how many more there would be."""
    of_user: dict[int, list[Remark]] = {}
    for uid, remark in remarks:
        of_user.setdefault(uid, []).append(remark)
    for uid, told in of_user.items():
        grouped = by_user(told)
        yield from grouped[:MOST_REMARKS]
        if len(grouped) > MOST_REMARKS:
            more = several(len(grouped) - MOST_REMARKS, "more region")
            yield Remark("probe_region", f"{more} of user {user_name(uid)} cannot be read")
    for uid, count in left_out.items():
        files = several(count, "more file")
        text = f"{files} ttmem_* of user {user_name(uid)} are not looked at: {MOST_OF_A_USER} of each user are"
        yield Remark("probe_region", text)


def _fault(path: str, pid: int, problem: Exception) -> Remark:
    """Whatever a region holds, it is that region's alone."""
    what = f"{type(problem).__name__}: {problem}"[:200]
    return Remark("probe_region", f"{path} cannot be read: {what}", pid, path=path)


def _why_not(name: RegionEntry, problem: BadRegion) -> Remark:
    if isinstance(problem.__cause__, PermissionError):
        return closed_file(PROBE_CLOSED, name.path, name.pid)
    kind = "foreign_probe_region" if isinstance(problem, ForeignRegion) else "probe_region"
    user = user_name(name.uid) or "unknown"
    text = str(problem) if user in str(problem) else f"{problem} (it belongs to user {user})"
    return Remark(kind, text, name.pid, path=name.path)
