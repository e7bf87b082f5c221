"""What processes never freed that have ended: from the regions that the probe leaves behind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ttmem.clock import now_ns
from ttmem.fast_dataclasses import replace
from ttmem.feeds.feed import checked
from ttmem.snapshots import Anomaly, Process, Snapshot
from ttmem.version import __version__


class Ended(NamedTuple):
    """Processes that have ended."""

    snapshot: Snapshot  # in which they hold what they never freed
    ended_ns: Mapping[int, int | None]  # by pid, also of those that freed everything; None: unknown
    killed: frozenset[int] = frozenset()  # pids; the others reported their end


def never_freed(folder: str | None = None, detail: Iterable[str] = ()) -> Ended | None:
    """What ended processes never freed; None if none has ended.

    The remarks of the snapshot name regions that may not be read. A region is kept for an hour, until
    `ttmem clean`, or until a new `ttmem run` needs the space.
    """
    # Imported here, since asking a server needs neither ledger nor native code.
    from ttmem.ledger import Books
    from ttmem.sources.probe.ended import ended_processes, unreadable_regions
    from ttmem.sources.shm import probe_directory

    books = Books()
    now = now_ns()
    place = probe_directory(folder)
    closed = unreadable_regions(place)
    told = list(ended_processes(place, closed))
    if not told and not closed:
        return None
    books.probed.take([one.news for one in told], now)
    snapshot = books.snapshot(now, {"ttmem": __version__, "shared_memory": place})
    snapshot = replace(
        snapshot,
        processes=tuple(_ended(one) for one in snapshot.processes if one.devices or one.overflow),
        remarks=(
            *(Anomaly(one.kind, one.text, one.pid, one.bytes) for one in closed),
            *(_full(one.news.facts.pid) for one in told if one.news.table_full),
        ),
    )
    return Ended(
        books.details(checked(detail)).add_all(snapshot),
        {one.news.facts.pid: one.ended_ns for one in told},
        frozenset(one.news.facts.pid for one in told if not one.in_order),
    )


def _full(pid: int) -> Anomaly:
    text = (
        f"pid {pid}: its probe's table was full for a while: more may never have been freed than is told"
        " (`ttmem run --live` enlarges it)"
    )
    return Anomaly("probe_table", text, pid)


def _ended(process: Process) -> Process:
    return replace(process, alive=False, start_time_ns=None)
