"""One connection's own framing: bytes to frames."""

from __future__ import annotations

from ttmem.events import EVENT_SIZE
from ttmem.wire.frames import (
    HEADER,
    MAGIC,
    MAX_CLIENT_PAYLOAD,
    MAX_EVENTS_PAYLOAD,
    PREAMBLE,
    VERSION,
    Frame,
)


class FrameError(Exception):
    """The stream cannot be read any further; the text says why, for both sides."""


class FrameStream:
    """Feed it bytes, take frames one by one; what is not taken stays.

    Events are taken as they arrive, in several parts if need be: whoever sends half of a frame holds next to nothing.
    """

    def __init__(self, peer: str = "client", limit: int = MAX_CLIENT_PAYLOAD) -> None:
        self._peer = peer
        self._limit = limit
        self._data = b""
        self._at = 0
        self._greeted = False
        self._events_left = 0  # bytes of a frame of events that have not been taken

    def feed(self, data: bytes) -> None:
        """Adds what arrived."""
        self._data = self._data[self._at :] + data if self._at < len(self._data) else data
        self._at = 0

    @property
    def waiting(self) -> int:
        """Bytes that were not taken, or wait for the rest of their frame."""
        return len(self._data) - self._at

    @property
    def partial(self) -> bool:
        """True if a frame has begun and not ended."""
        return self.waiting > 0 or self._events_left > 0

    def take(self) -> tuple[Frame, bytes, int, int] | None:
        """(type, data, offset, length) of the next whole frame, or of whole events: no copy of the payload."""
        if not self._greeted and not self._greet():
            return None
        if self._events_left:
            return self._events()
        if len(self._data) - self._at < HEADER.size:
            return None
        kind, length = HEADER.unpack_from(self._data, self._at)
        limit = MAX_EVENTS_PAYLOAD if kind == Frame.EVENTS else self._limit
        if length > limit:
            raise FrameError(f"a frame of {length:,} bytes is longer than the limit of {limit:,}")
        start = self._at + HEADER.size
        if kind == Frame.EVENTS and length:
            if length % EVENT_SIZE:
                raise FrameError(f"a batch of {length} bytes is no whole number of events")
            self._at, self._events_left = start, length
            return self._events()
        if len(self._data) - start < length:
            return None
        self._at = start + length
        try:
            return Frame(kind), self._data, start, length
        except ValueError:
            raise FrameError(f"frame type {kind} is unknown in version {VERSION}") from None

    def _events(self) -> tuple[Frame, bytes, int, int] | None:
        here = min(self.waiting, self._events_left)
        length = here - here % EVENT_SIZE
        if not length:
            return None
        start = self._at
        self._at += length
        self._events_left -= length
        return Frame.EVENTS, self._data, start, length

    def _greet(self) -> bool:
        if len(self._data) < PREAMBLE.size:
            if not MAGIC.startswith(self._data[: len(MAGIC)]):
                raise FrameError("these bytes are no ttmem stream")
            return False
        magic, version, _ = PREAMBLE.unpack_from(self._data)
        if magic != MAGIC:
            raise FrameError("these bytes are no ttmem stream")
        if version != VERSION:
            mine = "server" if self._peer == "client" else "client"
            raise FrameError(
                f"this {self._peer} speaks version {version} of ttmem's protocol, this {mine} speaks version {VERSION};"
                " install the same ttmem on both sides"
            )
        self._at = PREAMBLE.size
        self._greeted = True
        return True
