"""HTTP connections with limits on slow requests and unread answers.

uvicorn limits the time between two requests, but not the time that the head of a request or an unread answer may
take, and anyone on the machine can open as many connections as the process has descriptors.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import defaultdict
from typing import Any, ClassVar

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_S = 10.0  # until the head of a request is complete
MOST_WAITING = 256  # connections without a complete head; beyond that, the oldest is closed
MOST_UNREAD = 64 << 20  # unread bytes per user
READ_S = 30.0  # a client that reads nothing of an answer for this time is dropped
MOST_UNKNOWN = 256  # connections whose last request had no token; beyond that, the oldest is closed
# In all, fewer than uvicorn's limit, which refuses everybody; beyond that, the oldest of the user with most is closed.
MOST_OPEN = 896


class HttpConnection(H11Protocol):
    """uvicorn's protocol with these limits."""

    _open: ClassVar[dict[HttpConnection, None]] = {}  # the oldest first
    _waiting: ClassVar[dict[HttpConnection, asyncio.TimerHandle]] = {}  # the oldest first
    _unread = 0  # when the timeout was checked last
    _left = 0  # unread bytes when `_reader` began to wait
    _reader: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._make_room()
        self._open[self] = None
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._open.pop(self, None)
        self._head_is_there()
        self._reader_goes_on()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._await_reader()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._reader_goes_on()
        if self.transport.is_closing():
            self._await_reader()

    def handle_events(self) -> None:
        super().handle_events()
        if self._is_idle():
            self._await_head()  # of the next request
        else:
            self._head_is_there()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing():
            self._await_reader()
        elif self._is_idle():
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
            if connection._uid == uid
        )
        return sum(unread) > MOST_UNREAD

    @classmethod
    def _make_room(cls) -> None:
        """For a new connection, so that those of one user, or of clients without a token, keep nobody else out."""
        found: dict[int | None, list[HttpConnection]] = defaultdict(list)
        for connection in cls._open:
            found[connection._uid].append(connection)
        if len(found[None]) >= MOST_UNKNOWN:
            found[None][0]._abort()
        elif len(cls._open) >= MOST_OPEN:
            max(found.values(), key=len)[0]._abort()

    @property
    def _uid(self) -> int | None:
        """Who made the last request; None: unknown, as long as it has no valid token."""
        return None if self.scope is None else self.scope["state"].get("uid")

    def _await_reader(self) -> None:
        """While nothing more is written, so that only reading changes what is left."""
        if self._reader is None:
            self._left = self.transport.get_write_buffer_size()
            self._reader = self.loop.call_later(READ_S, self._check_reader)

    def _reader_goes_on(self) -> None:
        if self._reader is not None:
            self._reader.cancel()
            self._reader = None

    def _check_reader(self) -> None:
        self._reader = None
        if self.transport.get_write_buffer_size() >= self._left:
            self._abort()
        else:
            self._await_reader()

    def _abort(self) -> None:
        """With a reset: else the kernel would keep for minutes what is unread, up to some MiB."""
        self._open.pop(self, None)
        if (connection := self.transport.get_extra_info("socket")) is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

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
