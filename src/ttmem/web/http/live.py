"""Snapshots for all pages: the feed is asked once per interval for each question, however many pages ask it."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from ttmem.errors import NothingToRead, TtmemError
from ttmem.feeds import Feed, idle_host
from ttmem.procfs import user_name
from ttmem.snapshots import Anomaly, LeftBehind, Process, Snapshot
from ttmem.snapshots.rows import Row
from ttmem.snapshots.types import DETAIL_ROWS

T = TypeVar("T")
MOST_QUESTIONS = 64  # whose answers are remembered
PRIVATE = ("site", "last_site", "text")  # of rows; they contain paths
CLOSED = "shown to its owner and to root"


class Question(NamedTuple):
    """What to ask a feed; see `Feed.read`."""

    detail: tuple[str, ...] = ()
    device: str | None = None
    limit: int | None = None


class Live:
    """A feed belongs to one thread, which does nothing but ask it; a slow one delays answers, never events."""

    def __init__(self, feed: Feed, interval: float) -> None:
        self.interval = interval
        self.problem: str | None = "not asked yet"  # with the last question; None: it was answered
        self._feed = feed
        self._thread = ThreadPoolExecutor(1, "ttmem-feed")
        self._known: OrderedDict[Question, tuple[float, asyncio.Future[Snapshot]]] = OrderedDict()

    @property
    def name(self) -> str:
        return self._feed.name

    async def snapshot(self, question: Question = Question()) -> Snapshot:  # noqa: B008
        """At most one interval old. TtmemError if there is none."""
        now = time.monotonic()
        asked = self._known.get(question)
        if asked is None or (asked[1].done() and now - asked[0] >= self.interval):
            answer = asyncio.ensure_future(self.on_thread(lambda: self._read(question)))
            answer.add_done_callback(_seen)
            asked = self._known[question] = now, answer
            self._known.move_to_end(question)
            while len(self._known) > MOST_QUESTIONS:
                self._known.popitem(last=False)
        return await asyncio.shield(asked[1])  # others may wait for it, too

    async def on_thread(self, work: Callable[[], T]) -> T:
        """Runs something on the feed's own thread."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _read(self, question: Question) -> Snapshot:
        try:
            found = self._feed.read(question.detail, device=question.device, limit=question.limit)
        except NothingToRead:
            found = idle_host()
        except TtmemError as problem:
            self.problem = str(problem)
            raise
        self.problem = None
        return found

    def close(self) -> None:
        self._thread.submit(self._feed.close)
        self._thread.shutdown()


def _seen(answer: asyncio.Future[Snapshot]) -> None:
    """Whoever asked may be gone; an exception that nobody takes would be logged."""
    if not answer.cancelled():
        answer.exception()


def visible_to(snapshot: Snapshot, uid: int) -> Snapshot:
    """Without the command lines and paths of other users, unless root asks."""
    if uid == 0:
        return snapshot
    me = user_name(uid)
    others = {process.pid for process in snapshot.processes if process.user != me}
    others |= {left.pid for left in snapshot.left_behind if left.user != me}

    def anomaly(one: Anomaly) -> Anomaly:
        return replace(one, text=f"{one.kind}: {CLOSED}") if one.pid in others else one

    def process(one: Process) -> Process:
        return replace(one, command=None) if one.pid in others else one

    def left(one: LeftBehind) -> LeftBehind:
        return replace(one, command=None) if one.pid in others else one

    def closed(row: Row) -> Any:
        told: dict[str, Any] = {name: None for name in PRIVATE if name in row._fields}
        return row._replace(**told) if told and row.pid in others else row

    rows: dict[str, Any] = {
        name: tuple(map(closed, found))
        for name in DETAIL_ROWS
        if (found := getattr(snapshot, name)) is not None
    }
    return replace(
        snapshot,
        devices=tuple(
            replace(device, anomalies=tuple(map(anomaly, device.anomalies)))
            for device in snapshot.devices
        ),
        processes=tuple(map(process, snapshot.processes)),
        left_behind=tuple(map(left, snapshot.left_behind)),
        remarks=tuple(map(anomaly, snapshot.remarks)),
        **rows,
    )
