"""One thread that works for all users in turn."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from ttmem.errors import TtmemError

T = TypeVar("T")
MOST_OF_A_USER = 8  # questions that wait at the same time


class Busy(TtmemError):
    """A user has asked too much at once."""


class Turns:
    """Whoever asks waits for at most one question of each other user, however many those have asked."""

    def __init__(self, name: str) -> None:
        self._thread = ThreadPoolExecutor(1, name)
        self._closed = False
        # Locks of asyncio are given in the order of waiting; of each user, one question waits for the second.
        self._of_user: defaultdict[int | None, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._of_all = asyncio.Lock()
        self._waiting: Counter[int | None] = Counter()

    def do(self, uid: int | None, work: Callable[[], T]) -> Coroutine[None, None, T]:
        """Runs `work` on the thread. Busy, at once, if this user has too many questions waiting."""
        if self._waiting[uid] >= MOST_OF_A_USER:
            raise Busy("too many of your questions are waiting; try again later")
        self._waiting[uid] += 1
        return self._in_turn(uid, work)

    async def _in_turn(self, uid: int | None, work: Callable[[], T]) -> T:
        try:
            async with self._of_user[uid], self._of_all:
                if self._closed:
                    raise TtmemError("it has been closed")
                return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        finally:
            self._waiting[uid] -= 1
            if not self._waiting[uid]:
                del self._waiting[uid], self._of_user[uid]

    def close(self, last: Callable[[], None], *, wait: bool) -> None:
        """`last` is run after the present question."""
        self._closed = True
        self._thread.submit(last)
        self._thread.shutdown(wait=wait)
