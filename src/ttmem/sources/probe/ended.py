"""Regions of processes that have ended: what they never freed, until somebody cleans up, or for an hour."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass

from ttmem.clock import now_ns
from ttmem.events import EVENT_SIZE, PROBE_CLOSED, Event, Flag, Op, Remark
from ttmem.events.probe_news import ProbeNews
from ttmem.probe.layout import LiveType
from ttmem.procfs import ProcessFacts, start_time_ns
from ttmem.sources.owned_files import Changed, Key, opened, remove_own
from ttmem.sources.probe.reader import RegionReader
from ttmem.sources.probe.region import ProbeRegion
from ttmem.sources.probe.region_file import BadRegion, RegionEntry, TooMuch, find_regions
from ttmem.sources.shm import by_user, closed_file

KEPT_NS = 3_600_000_000_000
MOST_BYTES_OF_A_USER = 128 << 20  # of events that tell what was never freed: two million buffers
MOST_REMARKS = 16


@dataclass(frozen=True, slots=True)
class EndedProcess:
    """The last words of a process: `news.live` are all buffers that it never freed."""

    news: ProbeNews
    ended_ns: int | None  # None: it was killed, and nobody saw when
    last_ns: int  # of its last event, or of its beginning: it did not end before
    in_order: bool


def ended_processes(
    folder: str | None = None, remarks: list[Remark] | None = None
) -> Iterator[EndedProcess]:
    """Each region whose process is gone, oldest first by pid; `remarks` gets what is too much to be read."""
    told: Counter[int] = Counter()
    for name in find_regions(folder):
        try:
            ended = _ended_at(name, told)
        except TooMuch as problem:
            if remarks is not None and len(remarks) < MOST_REMARKS:
                remarks.append(Remark("probe_region", str(problem), name.pid, path=name.path))
        except BadRegion:
            pass
        else:
            if ended is not None:
                yield ended


def _ended_at(name: RegionEntry, told: Counter[int]) -> EndedProcess | None:
    follower = RegionReader(name.path)
    try:
        if follower.alive():
            return None
        if told[follower.uid] > MOST_BYTES_OF_A_USER:
            raise TooMuch(
                f"{name.path} is not read: other regions of user {follower.user} tell of more than enough"
            )
        ended = _ended(follower)
        told[follower.uid] += len(ended.news.live or b"")
        return ended
    finally:
        follower.close()


def unreadable_regions(folder: str | None = None) -> list[Remark]:
    """Those of ended processes that we may not read: what was never freed there is unknown."""
    closed = [
        closed_file(PROBE_CLOSED, name.path, name.pid)
        for name in find_regions(folder)
        if not os.access(name.path, os.R_OK)
        and os.path.lexists(name.path)
        and start_time_ns(name.pid) is None
    ]
    return by_user(closed)


def final_news(path: str) -> ProbeNews | None:
    """What a dead process held when it was killed; None if its region is gone."""
    try:
        follower = RegionReader(path)
    except BadRegion:
        return None
    try:
        follower.rebuild()
        return follower.look(ended=True)
    except BadRegion:
        return None
    finally:
        follower.close()


def remove_expired(folder: str | None = None) -> None:
    """Removes our own regions of processes that ended more than an hour ago."""
    oldest = now_ns() - KEPT_NS
    for name in find_regions(folder):
        # Whatever was made within the hour has not ended before it: most regions are never opened here.
        if name.uid == os.geteuid():
            with suppress(OSError, BadRegion):
                if os.lstat(name.path).st_mtime_ns < oldest:
                    _remove_if_expired(name.path, oldest)


def _remove_if_expired(path: str, oldest: int) -> None:
    follower = RegionReader(path)
    try:
        ended = None if follower.alive() else _ended(follower)
    finally:
        follower.close()
    if ended is not None and (ended.ended_ns or ended.last_ns) < oldest:
        remove_own(path, follower.key)


def _ended(follower: RegionReader) -> EndedProcess:
    follower.rebuild()
    news = follower.look(ended=True)
    losses = follower.losses()
    facts = ProcessFacts(news.facts.pid, None, follower.user, None)
    return EndedProcess(
        news=_with_closed(
            news,
            facts,
            follower.gone_with_device(),
            losses.live_without_room > 0,
            losses.forgotten,
        ),
        ended_ns=follower.ended_ns,
        last_ns=_last_time(news) or follower.created_ns,
        in_order=follower.in_order,
    )


def _with_closed(
    news: ProbeNews, facts: ProcessFacts, gone: bytes, without_room: bool, forgotten: int
) -> ProbeNews:
    """What was there when its device was closed was never freed either. Programs are nobody's to free."""
    live = news.live or b""
    ops = live[::EVENT_SIZE]
    left = bytearray()
    at = ops.find(Op.ALLOC)
    while at >= 0:
        left += live[at * EVENT_SIZE : (at + 1) * EVENT_SIZE]
        at = ops.find(Op.ALLOC, at + 1)
    if without_room:  # of some there was no room in the table: the ring may have them
        listed = {(event.device, event.id) for event in _events(gone)}
        for place, event in _closed_in_ring(news.earlier + news.events).items():
            if place not in listed:
                left += event.pack()
    return ProbeNews(
        facts=facts,
        path=news.path,
        devices=news.devices,
        strings=news.strings,
        live=bytes(left) + gone,
        table_full=news.table_full,
        lost=news.lost,
        unlisted=news.unlisted + forgotten,
    )


def _closed_in_ring(events: bytes) -> dict[tuple[int, int], Event]:
    since: dict[tuple[int, int], int] = {}
    closed = {}
    for event in _events(events):
        place = (event.device, event.id)
        if event.op == Op.ALLOC:
            since[place] = event.time
        elif event.op == Op.FREE and event.flags & Flag.WITH_DEVICE:
            made = event._replace(op=Op.ALLOC, flags=Flag.RESENT)
            closed[place] = made._replace(time=since.get(place, event.time))
    return closed


def _events(data: bytes) -> Iterator[Event]:
    return (Event.unpack(data, at) for at in range(0, len(data), EVENT_SIZE))


def _last_time(news: ProbeNews) -> int | None:
    return max((event.time for event in _events(news.earlier[-EVENT_SIZE:])), default=None)


MOST_KEPT = 64 << 20  # three whole regions
KEPT_SHARE = 4  # and no more than a quarter of what they could have at all


@dataclass(frozen=True, slots=True)
class _Dead:
    path: str
    key: Key
    pid: int
    size: int
    changed_ns: int


def prune_dead_regions(folder: str) -> list[int]:
    """Removes our own regions of dead processes: first of those that freed all, then the oldest.

    What stays is for `ttmem dump`. Returns the pids of removed ones that had not freed all: what
    they leaked is known to nobody from now on.
    """
    dead = list(_dead_regions(folder))
    taken = sum(one.size for one in dead)
    most = _most_kept(folder, taken)
    if taken <= most:
        return []
    leaky = _leaky(folder, [one.path for one in dead])
    kept, forgotten = 0, []
    for one in sorted(dead, key=lambda one: (one.path in leaky, one.changed_ns), reverse=True):
        kept += one.size
        if kept > most and remove_own(one.path, one.key):
            forgotten += [one.pid] * (one.path in leaky)
    return sorted(forgotten)


def free_and_total(folder: str) -> tuple[int, int] | None:
    """Bytes of the file system; None if it does not tell."""
    try:
        room = os.statvfs(folder)
    except OSError:
        return None
    return room.f_bavail * room.f_frsize, room.f_blocks * room.f_frsize


def _most_kept(folder: str, taken: int) -> int:
    room = free_and_total(folder)
    return MOST_KEPT if room is None else min(MOST_KEPT, (room[0] + taken) // KEPT_SHARE)


def _dead_regions(folder: str) -> Iterator[_Dead]:
    for name in find_regions(folder):
        with suppress(OSError, BadRegion), closing(ProbeRegion(name.path)) as region:
            status = os.lstat(name.path)
            ours = region.uid == os.geteuid()
            if ours and not region.process_alive() and not _summary_to_come(region):
                yield _Dead(name.path, region.key, region.pid, status.st_size, status.st_mtime_ns)


def _leaky(folder: str, paths: list[str]) -> set[str]:
    """Those of which `ttmem dump` lists something that was never freed.

    The table tells, in 10 ms. Only where it had no room for all, the ring is read too: 0.4 s.
    """
    told = {path: _left_something(path) for path in paths}
    leaky = {path for path, left in told.items() if left}
    if None in told.values():
        leaky |= {one.news.path for one in ended_processes(folder) if one.news.live}
    return leaky


def _left_something(path: str) -> bool | None:
    """None: its table does not tell."""
    with suppress(BadRegion), closing(ProbeRegion(path)) as region:
        losses = region.losses()
        if losses.live_uncounted or losses.forgotten or region.gone_with_device():
            return True
        if any(thing.type is LiveType.BUFFER for thing in region.live()):
            return True
        return None if losses.live_without_room else False
    return False


def _summary_to_come(region: ProbeRegion) -> bool:
    """Another `ttmem run` reads the regions of its children when the last of them has ended."""
    launcher = region.header().launcher
    return launcher is not None and os.path.exists(f"/proc/{launcher}")


_NAME = re.compile(r"ttmem_no_room_([0-9]{1,10})_([0-9]{1,10})\Z")


def take_unwatched(folder: str, launcher: int) -> list[int]:
    """The pids; the files are gone afterwards, and so are those of launchers that were killed."""
    pids = []
    for name in _listed(folder):
        match = _NAME.match(name)
        if match is None:
            continue
        ours = int(match[1]) == launcher
        if not ours and os.path.exists(f"/proc/{match[1]}"):
            continue
        # Nobody else's process was started by this user's launcher.
        with suppress(Changed, OSError), opened(os.path.join(folder, name)) as file:
            if file.status.st_uid == os.geteuid() and file.status.st_size == 0:
                os.unlink(name, dir_fd=file.folder)
                pids += [int(match[2])] * ours
    return sorted(pids)


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []
