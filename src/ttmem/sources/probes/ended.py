"""Regions of processes that have ended: what they never freed, until somebody cleans up, or for an hour."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from ttmem.clock import now_ns
from ttmem.events import EVENT_SIZE, Event, Flag, Op, Remark
from ttmem.events.probe_news import ProbeNews
from ttmem.process_identity import ProcessFacts, start_time_ns
from ttmem.sources.closed_files import PROBE_CLOSED, by_user, closed_file
from ttmem.sources.owned_files import remove_own
from ttmem.sources.probe_region import BadRegion, RegionName, TooMuch, find_regions
from ttmem.sources.probes.follower import Follower

KEPT_NS = 3_600_000_000_000
MOST_BYTES_OF_A_USER = 128 << 20  # of events that tell what was never freed: two million buffers
MOST_REMARKS = 16


@dataclass(frozen=True, slots=True)
class EndedRegion:
    """The last words of a process: `news.live` are all buffers that it never freed."""

    news: ProbeNews
    ended_ns: int | None  # None: it was killed, and nobody saw when
    last_ns: int  # of its last event, or of its beginning: it did not end before
    in_order: bool


def ended_regions(
    folder: str | None = None, remarks: list[Remark] | None = None
) -> Iterator[EndedRegion]:
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


def _ended_at(name: RegionName, told: Counter[int]) -> EndedRegion | None:
    follower = Follower(name.path)
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


def closed_regions(folder: str | None = None) -> list[Remark]:
    """Those of ended processes that we may not read: what was never freed there is unknown."""
    closed = [
        closed_file(PROBE_CLOSED, name.path, name.pid)
        for name in find_regions(folder)
        if not os.access(name.path, os.R_OK)
        and os.path.lexists(name.path)
        and start_time_ns(name.pid) is None
    ]
    return by_user(closed)


def last_words(path: str) -> ProbeNews | None:
    """What a dead process held when it was killed; None if its region is gone."""
    try:
        follower = Follower(path)
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
    follower = Follower(path)
    try:
        ended = None if follower.alive() else _ended(follower)
    finally:
        follower.close()
    if ended is not None and (ended.ended_ns or ended.last_ns) < oldest:
        remove_own(path, follower.key)


def _ended(follower: Follower) -> EndedRegion:
    follower.rebuild()
    news = follower.look(ended=True)
    losses = follower.losses()
    facts = ProcessFacts(news.facts.pid, None, follower.user, None)
    return EndedRegion(
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
