"""Snapshots for all pages: each query is sent to the feed once per interval, however many pages ask."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from contextlib import suppress
from typing import Any

from ttmem.errors import NothingToRead, TtmemError
from ttmem.feeds import Feed, idle_host
from ttmem.snapshots import Question, Snapshot
from ttmem.snapshots.types import DETAIL_ROWS
from ttmem.web.http.documents import users_in
from ttmem.web.http.fair_thread import Turns

MOST_KEPT = 200_000  # rows of cached answers; half a million take hundreds of megabytes
MOST_USERS = 65_536  # processes whose user is remembered
# Between snapshots while no page asks: they tell whether there is a feed, and users of processes. Who scrapes every 15
# seconds tells the same.
UNSEEN_S = 20.0
# Between reads of the feed while no page asks. Events have to be read before they are overwritten; but with 32 devices
# and 64 processes, reading only counters takes 1 to 2 % of a core each second, most of it for /proc.
LOOK_S, LONGEST_LOOK_S = 1.0, 15.0
LOOK_SHARE = 0.003  # of a core, for counters


class Live:
    """Runs the feed on a thread of its own; a slow feed delays answers, never streams."""

    def __init__(self, feed: Feed, interval: float) -> None:
        self.interval = interval
        self.users: OrderedDict[int, str | None] = OrderedDict()  # of processes, also ended ones
        self._read_at = 0.0  # monotonic
        self._has_events = False  # whether a process is read by them
        self._feed = feed
        self._turns = Turns("ttmem-feed")
        self._asked: dict[tuple[Question, int | None], asyncio.Future[Snapshot]] = {}  # by user
        self._known: OrderedDict[Question, tuple[float, Snapshot]] = OrderedDict()  # for all users

    async def snapshot(
        self,
        question: Question = Question(),  # noqa: B008
        uid: int | None = None,
    ) -> Snapshot:
        """At most one interval old, for that user or for the page itself. TtmemError if there is none."""
        if (known := self._fresh(question)) is not None:
            return known
        key = question, uid  # not with other users, who may have to wait for their own questions
        if key not in self._asked:
            answer = asyncio.ensure_future(self._turns.do(uid, lambda: self._answer(question)))
            answer.add_done_callback(seen)
            answer.add_done_callback(lambda _: self._asked.pop(key))
            self._asked[key] = answer
        return await asyncio.shield(self._asked[key])  # other pages may be waiting for it

    async def keep_past(self) -> None:
        """Follows the feed even if no page is open, so that a new page can show the past hour."""
        while True:
            spent = 0.0
            since = time.monotonic() - self._read_at
            with suppress(TtmemError):
                if since >= UNSEEN_S:
                    await self.snapshot()
                elif since >= LOOK_S:  # else pages ask
                    spent = await self._turns.do(None, self._follow)
            pause = LOOK_S if self._has_events else min(spent / LOOK_SHARE, LONGEST_LOOK_S)
            await asyncio.sleep(max(pause, LOOK_S, self.interval))

    def _follow(self) -> float:
        """On the thread; returns the processor time it took, in seconds."""
        begun = time.thread_time()
        self._feed.follow()
        return time.thread_time() - begun

    def _fresh(self, question: Question) -> Snapshot | None:
        since, known = self._known.get(question, (0.0, None))
        return known if time.monotonic() - since < self.interval else None

    def _answer(self, question: Question) -> Snapshot:
        """On the thread. Another user may have asked the same before."""
        now = time.monotonic()
        found = self._fresh(question)
        if found is None:
            found = self._read(question)
            self._known[question] = now, found
            self._known.move_to_end(question)
            self._forget(now)
        return found

    def _forget(self, now: float) -> None:
        """Drops answers that are out of date, and all before the one that exceeds the limit."""
        left = MOST_KEPT
        for question, (since, known) in reversed([*self._known.items()]):
            if left <= 0 or now - since > self.interval:
                del self._known[question]
            left -= sum(len(getattr(known, name) or ()) for name in DETAIL_ROWS)

    def _read(self, question: Question) -> Snapshot:
        self._read_at = time.monotonic()
        try:
            found = self._feed.answer(question)
        except NothingToRead:
            found = idle_host()
        self._remember_users(found)
        self._has_events = any("probe" in process.sources for process in found.processes)
        return found

    def _remember_users(self, snapshot: Snapshot) -> None:
        """Events of a process may still be shown after it has exited, and its pid may have been given to another."""
        for pid, user in users_in(snapshot).items():
            self.users[pid] = user if self.users.get(pid, user) == user else None
            self.users.move_to_end(pid)
        while len(self.users) > MOST_USERS:
            self.users.popitem(last=False)

    def close(self) -> None:
        self._turns.close(self._feed.close, wait=True)


def seen(answer: asyncio.Future[Any]) -> None:
    """The caller may be gone; an exception that nobody retrieves would be logged."""
    if not answer.cancelled():
        answer.exception()
