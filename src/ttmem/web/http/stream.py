"""Server-sent events: one stream for each page, bounded in number, closed when nobody reads."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable

from starlette.exceptions import HTTPException
from starlette.responses import Response

from ttmem.web.http.guard import Receive, Scope, Send

MOST = 512  # of all users
MOST_OF_A_USER = 128
SEND_S = 30.0  # a client that takes longer to read is dropped


class Streams:
    """Counts the open ones by uid."""

    def __init__(self) -> None:
        self._open: Counter[int] = Counter()

    def open(self, uid: int) -> None:
        if self._open.total() >= MOST or self._open[uid] >= MOST_OF_A_USER:
            raise HTTPException(503, "too many streams are open; close some pages")
        self._open[uid] += 1

    def close(self, uid: int) -> None:
        self._open[uid] -= 1
        if not self._open[uid]:
            del self._open[uid]


class Stream(Response):
    """Ends when the client goes away, even if nothing is to be sent; `closed` is called then."""

    def __init__(self, texts: AsyncIterator[str], closed: Callable[[], None]) -> None:
        super().__init__(media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._texts, self._closed = texts, closed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            tasks = [
                asyncio.ensure_future(self._follow(send)),
                asyncio.ensure_future(_gone(receive)),
            ]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            self._closed()

    async def _follow(self, send: Send) -> None:
        async for text in self._texts:
            message = {"type": "http.response.body", "body": text.encode(), "more_body": True}
            await asyncio.wait_for(send(message), SEND_S)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
