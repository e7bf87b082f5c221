"""One connection's own framing: bytes to frames."""

from __future__ import annotations

from ttmem.wire.frames import HEADER, MAGIC, MAX_CLIENT_PAYLOAD, PREAMBLE, VERSION, Frame


class FrameError(Exception):
    """The stream cannot be read any further; the text says why, for both sides."""


class FrameStream:
    """Feed it bytes, take frames one by one; what is not taken stays."""

    def __init__(self, peer: str = "client", limit: int = MAX_CLIENT_PAYLOAD) -> None:
        self._peer = peer
        self._limit = limit
        self._data = b""
        self._at = 0
        self._greeted = False

    def feed(self, data: bytes) -> None:
        """Adds what arrived."""
        self._data = self._data[self._at :] + data if self._at < len(self._data) else data
        self._at = 0

    @property
    def partial(self) -> bool:
        """True if bytes wait for the rest of their frame."""
        return self._at < len(self._data)

    def take(self) -> tuple[Frame, bytes, int, int] | None:
        """(type, data, offset, length) of the next whole frame: no copy of the payload."""
        if not self._greeted and not self._greet():
            return None
        if len(self._data) - self._at < HEADER.size:
            return None
        kind, length = HEADER.unpack_from(self._data, self._at)
        if length > self._limit:
            raise FrameError(
                f"a frame of {length:,} bytes is longer than the limit of {self._limit:,}"
            )
        start = self._at + HEADER.size
        if len(self._data) - start < length:
            return None
        self._at = start + length
        try:
            return Frame(kind), self._data, start, length
        except ValueError:
            raise FrameError(f"frame type {kind} is unknown in version {VERSION}") from None

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
