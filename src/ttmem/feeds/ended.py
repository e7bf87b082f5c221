"""What processes did that have ended, and what they never freed: from the regions they left, or from a recording."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

from ttmem.clock import now_ns
from ttmem.events import EVENT_SIZE, Amounts, Op
from ttmem.fast_dataclasses import replace
from ttmem.feeds.feed import checked
from ttmem.feeds.local_feed import LocalFeed
from ttmem.ledger import Books
from ttmem.snapshots import Anomaly, Buffer, Process, Question, Snapshot
from ttmem.sources.probe.ended import ended_processes, unreadable_regions
from ttmem.sources.shm import probe_directory
from ttmem.version import __version__

if TYPE_CHECKING:  # `ttmem dump` of live processes needs no recording
    from ttmem.recording import Recording


def of_ended(pid: int, shm: str | None = None) -> Recording | None:
    """Everything a watched process did before it ended, from its region; None if the region is incomplete.

    It is complete for a minute if the process made no more events than the ring holds, and for an hour if it made at
    most 16,384 (`compact.MOST_EVENTS`).
    """
    from ttmem.recording import Recording
    from ttmem.recording.memory import ChunkMemory, MemorySource

    memory = ChunkMemory()
    with closing(LocalFeed(shm, wanted=lambda region: region.facts.pid == pid)) as feed:
        recorder = feed.remember(memory)
        feed.poll()
        recorder.close()
    recording = Recording(MemorySource(memory))
    told, listed = False, False  # events as they happened, not entries of the live table
    for batch in recording.batches():
        allocates = Op.ALLOC in bytes(batch.events[::EVENT_SIZE])
        told |= batch.source_position is not None
        listed |= batch.source_position is None and allocates
    return recording if told and not listed else None


class Ended(NamedTuple):
    snapshot: Snapshot  # its buffers are those that were never freed
    # By pid, including those that freed everything; None: unknown.
    ended_ns: Mapping[int, int | None]
    killed: frozenset[int] = frozenset()  # pids; the others reported their end


def never_freed(folder: str | None = None, detail: Iterable[str] = ()) -> Ended | None:
    """What ended processes never freed; None if none has ended.

    The remarks of the snapshot name regions that cannot be read. A region is kept for an hour, until `ttmem clean`, or
    until a new `ttmem run` needs the space.
    """
    books = Books()
    now = now_ns()
    place = probe_directory(folder)
    closed = unreadable_regions(place)
    told = list(ended_processes(place, closed))
    if not told and not closed:
        return None
    books.probed.take([ended.news for ended in told], now)
    snapshot = books.snapshot(now, {"ttmem": __version__, "shared_memory": place})
    snapshot = replace(
        snapshot,
        processes=tuple(
            replace(process, alive=False, start_time_ns=None)
            for process in snapshot.processes
            if process.devices or process.overflow
        ),
        remarks=(
            *(Anomaly(remark.kind, remark.text, remark.pid, remark.bytes) for remark in closed),
            *(_full(ended.news.facts.pid) for ended in told if ended.news.table_full),
        ),
    )
    return Ended(
        books.details(Question(checked(detail))).add_all(snapshot),
        {ended.news.facts.pid: ended.ended_ns for ended in told},
        frozenset(ended.news.facts.pid for ended in told if not ended.in_order),
    )


def never_freed_in(recording: Recording, at: str | float = "end") -> Ended | None:
    """What the processes of a recording that had ended at that instant never freed; None if none had."""
    instant = recording.instant(at)
    markers = (one for one in recording.markers if one.position < instant.position)
    ended = {one.pid: one.time_ns for one in markers if one.kind == "end" and one.pid is not None}
    if not ended:
        return None
    buffers = tuple(
        Buffer(
            change.origin.process.pid,
            change.device,
            change.kind,
            change.id,
            change.address,
            change.requested,
            change.reserved,
            time_ns=change.since_ns,
            name=change.origin.op,
            site=change.origin.site,
            phase=change.origin.phase,
        )
        for change in recording.never_freed(instant.position)
    )
    held: dict[int, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    for one in buffers:
        held[one.pid or 0][one.device or ""][one.kind.lower()] += one.held
    known = {one.pid: one for one in recording.processes}
    processes = tuple(
        Process(
            pid,
            None,
            known[pid].user if pid in known else None,
            known[pid].command if pid in known else None,
            alive=False,
            sources=("recording",),
            connected=False,
            devices={device: Amounts(**kinds) for device, kinds in devices.items()},
        )
        for pid, devices in sorted(held.items())
    )
    snapshot = recording.snapshot(instant, Question()).without_details()
    return Ended(
        replace(snapshot, processes=processes, left_behind=(), remarks=(), buffers=buffers),
        ended,
    )


def _full(pid: int) -> Anomaly:
    text = (
        f"pid {pid}: its probe's table was full for a while: there may be more that was never freed"
        " (`ttmem run --live` enlarges it)"
    )
    return Anomaly("probe_table", text, pid)
