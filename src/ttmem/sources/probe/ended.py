"""What processes that have ended never freed, from the regions they left."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import closing

from ttmem.events import EVENT_SIZE, PROBE_CLOSED, Event, Flag, Op, Remark
from ttmem.events.probe_news import ProbeNews
from ttmem.events.record import places
from ttmem.fast_dataclasses import dataclass
from ttmem.procfs import ProcessFacts, start_time_ns
from ttmem.sources.containers import Container
from ttmem.sources.listing import CpuBudget
from ttmem.sources.probe.reader import RegionReader, live_events
from ttmem.sources.probe.region_file import BadRegion, RegionEntry, TooMuch, find_regions
from ttmem.sources.probe.ring import closed_with_device
from ttmem.sources.shm import by_user, closed_file

MOST_BYTES_PER_USER = 128 << 20  # of events that describe what was never freed: two million buffers
MOST_SECONDS_OF_OTHERS = 2.0  # of processor time for the regions of each other user
MOST_REMARKS = 16


@dataclass(frozen=True, slots=True)
class EndedProcess:
    """`news.live` are all buffers that it never freed."""

    news: ProbeNews
    ended_ns: int | None  # None: it was killed, and nobody saw when
    last_ns: int  # time of its last event, or of its start: it did not end before
    in_order: bool


def ended_processes(
    folder: str | None = None, remarks: list[Remark] | None = None
) -> Iterator[EndedProcess]:
    """All of which there is a region, ordered by pid. `remarks` receives regions that are too large to be read."""
    budget = CpuBudget(MOST_SECONDS_OF_OTHERS, [0, os.geteuid()])
    taken: Counter[int] = Counter()
    for entry in find_regions(folder):
        try:
            ended = _ended_process(entry, budget, taken)
        except TooMuch as problem:
            if remarks is not None and len(remarks) < MOST_REMARKS:
                remarks.append(Remark("probe_region", str(problem), entry.pid, path=entry.path))
        except BadRegion:
            pass
        else:
            if ended is not None:
                yield ended


def _ended_process(
    entry: RegionEntry, budget: CpuBudget, taken: Counter[int]
) -> EndedProcess | None:
    """`taken` is how many bytes the events of each user's regions have taken so far."""
    with closing(RegionReader(entry.path)) as reader:
        uid = reader.uid
        if reader.alive():
            return None
        if budget.is_spent(uid) or taken[uid] > MOST_BYTES_PER_USER:
            raise TooMuch(
                f"{entry.path} is not read: other regions of user {reader.user} already exceed the limit"
            )
        with budget.of(uid):
            ended = ended_process(reader)
        taken[uid] += len(ended.news.live or b"")
        return ended


def unreadable_regions(folder: str | None = None) -> list[Remark]:
    """Regions of ended processes that this user may not read: what was never freed there is unknown."""
    closed = [
        closed_file(PROBE_CLOSED, entry.path, entry.pid)
        for entry in find_regions(folder)
        if not os.access(entry.path, os.R_OK)
        and os.path.lexists(entry.path)
        and start_time_ns(entry.pid) is None
    ]
    return by_user(closed)


def final_news(path: str, container: Container | None = None) -> ProbeNews | None:
    """What a process held when it was killed; None if its region is gone."""
    try:
        with closing(RegionReader(path, container)) as reader:
            reader.rebuild()
            return reader.read(ended=True)
    except BadRegion:
        return None


def ended_process(reader: RegionReader) -> EndedProcess:
    region = reader.region
    reader.rebuild()
    news = reader.read(ended=True)
    last = [event.time for event in _events(news.earlier[-EVENT_SIZE:])]
    return EndedProcess(
        news=_never_freed(reader, news),
        ended_ns=region.header().ended_ns,
        last_ns=max(last, default=0) or region.last_event_ns or region.created_ns,
        in_order=region.in_order(),
    )


def _never_freed(reader: RegionReader, news: ProbeNews) -> ProbeNews:
    """Buffers, including those that were there when their device was closed. Programs need not be freed."""
    losses, gone = reader.region.losses(), live_events(reader.region.gone_with_device())
    live = news.live or b""
    left = bytearray()
    for at in places(live, Op.ALLOC):
        left += live[at * EVENT_SIZE : (at + 1) * EVENT_SIZE]
    if losses.live_not_listed:  # the table was full, but the ring may have the rest
        events = news.earlier + news.events
        listed = {(event.id, event.device) for event in _events(gone)}
        allocations = (Event.unpack(events, at * EVENT_SIZE) for at in places(events, Op.ALLOC))
        made = {(event.id, event.device): event.time for event in allocations}
        for key, event in closed_with_device(events).items():
            if key not in listed:
                time = made.get(key, event.time)
                left += event._replace(op=Op.ALLOC, flags=Flag.RESENT, time=time).pack()
    return ProbeNews(
        facts=ProcessFacts(news.facts.pid, None, reader.user, None),
        path=news.path,
        devices=news.devices,
        strings=news.strings,
        live=bytes(left) + gone,
        table_full=news.table_full,
        lost=news.lost,
        unlisted=news.unlisted + losses.forgotten,
    )


def _events(data: bytes) -> Iterator[Event]:
    return (Event.unpack(data, at) for at in range(0, len(data), EVENT_SIZE))
