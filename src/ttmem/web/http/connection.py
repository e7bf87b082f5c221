"""HTTP connections with limits on slow requests and unread answers.

uvicorn limits the time between two requests, but not the time that the head of a request or an unread answer may
take, and anyone on the machine can open as many connections as the process has descriptors.
"""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_S = 10.0  # until the head of a request is complete
MOST_WAITING = 256  # connections without a complete head; beyond that, the oldest is closed
MOST_UNREAD = 64 << 20  # unread bytes per user


class HttpConnection(H11Protocol):
    """uvicorn's protocol with these limits."""

    _open: ClassVar[set[HttpConnection]] = set()
    _waiting: ClassVar[dict[HttpConnection, asyncio.TimerHandle]] = {}  # the oldest first
    _unread = 0  # when the timeout was checked last

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._open.add(self)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._open.discard(self)
        self._head_is_there()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        super().handle_events()
        if self._is_idle():
            self._await_head()  # of the next request
        else:
            self._head_is_there()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._is_idle():
            self._await_head()  # also if the rest of an answered request never comes

    def timeout_keep_alive_handler(self) -> None:
        """Aborts, because closing would wait forever for a client that does not read."""
        before, self._unread = self._unread, self.transport.get_write_buffer_size()
        if not self._unread:
            super().timeout_keep_alive_handler()
        elif before and self._unread >= before:
            self.transport.abort()
        else:
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def shutdown(self) -> None:
        """Ends a stream, for which the server would wait in vain."""
        super().shutdown()
        if not self._is_idle() and self.cycle.response_started:
            self.transport.abort()

    @classmethod
    def is_full(cls, uid: int | None) -> bool:
        """Whether the clients of a user have left too much unread."""
        unread = (
            connection.transport.get_write_buffer_size()
            for connection in cls._open
            if connection.scope is not None and connection.scope["state"].get("uid") == uid
        )
        return sum(unread) > MOST_UNREAD

    def _is_idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _await_head(self) -> None:
        if self in self._waiting or self.transport.get_write_buffer_size():
            return
        if len(self._waiting) >= MOST_WAITING:
            next(iter(self._waiting))._drop()
        self._waiting[self] = self.loop.call_later(HEAD_S, self._drop)

    def _head_is_there(self) -> None:
        timer = self._waiting.pop(self, None)
        if timer is not None:
            timer.cancel()

    def _drop(self) -> None:
        self._head_is_there()
        if self._is_idle() and not self.transport.get_write_buffer_size():
            self.transport.abort()
