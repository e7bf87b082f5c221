"""All regions of a folder, followed: processes come and go, and so do their files."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import partial

from ttmem.events import Remark
from ttmem.events.probe_news import KilledProcess, ProbeNews
from ttmem.sources.closed_files import PROBE_CLOSED, by_user, closed_file
from ttmem.sources.probe_region import (
    BadRegion,
    ForeignRegion,
    NotReady,
    RegionName,
    find_regions,
)
from ttmem.sources.probes.ended import last_words
from ttmem.sources.probes.follower import Follower

FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 300.0  # before a region is read again that could not be
WITNESS_NS = 2_000_000_000  # who looked at a process no longer ago saw it die
Place = tuple[str, int]  # path and inode: a process that execs makes its region anew


@dataclass(frozen=True, slots=True)
class ProbeReading:
    """One look at all regions."""

    news: tuple[ProbeNews, ...] = ()
    remarks: tuple[Remark, ...] = ()
    killed: tuple[KilledProcess, ...] = ()


@dataclass(slots=True)
class ProbeWatcher:
    """Keeps one follower for each live process. A region whose process had ended before is read if somebody asks."""

    folder: str | None = None  # None: the usual one
    _followers: dict[Place, Follower] = field(default_factory=dict)
    _ended: set[Place] = field(default_factory=set)
    _killed: dict[Place, KilledProcess] = field(default_factory=dict)
    _looked_ns: int = 0
    _aside: dict[Place, tuple[float, float]] = field(
        default_factory=dict
    )  # until when, and how long

    def read(self) -> ProbeReading:
        """What is new in all of them."""
        remarks: list[Remark] = []
        there = {place: name for name in find_regions(self.folder) if (place := _place(name))}
        self._ended &= there.keys()
        self._killed = {place: one for place, one in self._killed.items() if place in there}
        self._aside = {place: one for place, one in self._aside.items() if place in there}
        for place, name in there.items():
            waits = place in self._aside and time.monotonic() < self._aside[place][0]
            if place not in self._ended and place not in self._followers and not waits:
                self._open(place, name, remarks)
        news = tuple(self._looks(there, remarks))
        return ProbeReading(news, tuple(by_user(remarks)), tuple(self._killed.values()))

    def rebuild(self, path: str) -> None:
        """The next look at that region reads its live table."""
        for follower in self._followers.values():
            if follower.path == path:
                follower.rebuild()

    def set_aside(self, path: str) -> None:
        """That region is not read for a while, each time for longer."""
        for place, follower in list(self._followers.items()):
            if follower.path == path:
                self._drop(place, follower)

    def _drop(self, place: Place, follower: Follower) -> None:
        follower.close()
        del self._followers[place]
        pause = min(2 * self._aside.get(place, (0.0, FIRST_PAUSE_S / 2))[1], LONGEST_PAUSE_S)
        self._aside[place] = time.monotonic() + pause, pause

    def close(self) -> None:
        """Gives the files back; the next `read` begins anew."""
        for follower in self._followers.values():
            follower.close()
        self._followers.clear()

    def _open(self, place: Place, name: RegionName, remarks: list[Remark]) -> None:
        try:
            follower = Follower(name.path)
        except NotReady:
            return
        except BadRegion as problem:
            remarks.append(_why_not(name, problem))
            return
        except Exception as problem:
            remarks.append(_fault(name.path, name.pid, problem))
            return
        if follower.alive():
            self._followers[place] = follower
        else:
            if not follower.in_order:
                words = partial(last_words, name.path)
                ended_ns = follower.ended_ns
                self._killed[place] = KilledProcess(
                    follower.facts.pid, name.path, words, ended_ns, follower.user
                )
            follower.close()
            self._ended.add(place)

    def _looks(self, there: Collection[Place], remarks: list[Remark]) -> Iterator[ProbeNews]:
        paths = {path for path, _ in there}
        now, looked_ns = time.time_ns(), self._looked_ns
        self._looked_ns = now
        for place, follower in list(self._followers.items()):
            # A file that was deleted can still be read; one that was replaced is of a life before `exec`.
            alive = follower.alive()
            over = (place not in there and place[0] in paths) or not alive
            try:
                if not alive and now - looked_ns < WITNESS_NS:
                    follower.note_death(now)
                news = follower.look(over)
            except BadRegion as problem:
                pid = follower.facts.pid
                remarks.append(Remark("probe_region", str(problem), pid, path=place[0]))
                news = ProbeNews(follower.facts, follower.path, ended=True)
            except Exception as problem:
                remarks.append(_fault(place[0], follower.facts.pid, problem))
                self._drop(place, follower)
                yield ProbeNews(follower.facts, follower.path, ended=True)
                continue
            if news.ended:
                follower.close()
                del self._followers[place]
            if over:
                self._ended.add(place)
            yield news


def _fault(path: str, pid: int, problem: Exception) -> Remark:
    """Whatever a region holds, it is that region's alone."""
    what = f"{type(problem).__name__}: {problem}"[:200]
    return Remark("probe_region", f"{path} cannot be read: {what}", pid, path=path)


def _why_not(name: RegionName, problem: BadRegion) -> Remark:
    if isinstance(problem.__cause__, PermissionError):
        return closed_file(PROBE_CLOSED, name.path, name.pid)
    kind = "foreign_probe_region" if isinstance(problem, ForeignRegion) else "probe_region"
    return Remark(kind, str(problem), name.pid, path=name.path)


def _place(name: RegionName) -> Place | None:
    try:
        return name.path, os.lstat(name.path).st_ino
    except OSError:
        return None
