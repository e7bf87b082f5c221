"""ttmem's own framing, on the same socket as the historical records.

A stream starts, in both directions, with a preamble of 16 bytes:

====== ==== =======================================================================
offset size field
====== ==== =======================================================================
0      8    ``TTMEM\\r\\n\\x1a``: no historical record starts so (their first byte is 1 to 12)
8      u32  version of what follows
12     u32  zero
====== ==== =======================================================================

Then frames: u32 type, u32 length of the payload, payload. All numbers are little-endian.

======= ============ ========= ==============================================================
type    name         from      payload
======= ============ ========= ==============================================================
1       HELLO        client    JSON: pid, start_time_ns, name, container_pid, role, reporter, image,
                                 hears (true: RESEND and DECLINED are understood)
2       WELCOME      server    JSON: pid, version
3       REFUSED      server    a sentence, UTF-8; the server closes after it
4       DEVICE       client    JSON: `DeviceDeclaration`
5       STRING       client    u32 id, UTF-8 text
6       CORES        client    u32 id, then (u16 x0, y0, x1, y1) for each rectangle, ends included
7       EVENTS       client    n x 64 bytes, `ttmem.events.record`
8       RESYNC_BEGIN client    empty: RESENT events follow, all that is still alive
9       RESYNC_END   client    empty: what was not resent since RESYNC_BEGIN is gone
10      LOST         client    u64 events dropped so far, u64 buffers beyond the client's cap
11      QUERY        client    JSON: what, and its arguments
12      ANSWER       server    u32 length of a JSON text, the text, attachments as it says
13      RESEND       server    a sentence, UTF-8: why the client is asked to declare its devices again and to resync
14      DECLINED     server    a sentence, UTF-8: why a declaration was not taken; everything else goes on
15      CHUNK        server    one chunk of a recording (docs/recording-format.md), after QUERY record
======= ============ ========= ==============================================================

Invariant: the preamble and REFUSED keep this shape in every version, so that two versions can always
tell each other why they part.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from enum import IntEnum
from struct import Struct
from typing import Any

from ttmem.events import EVENT_SIZE

VERSION = 1
MAGIC = b"TTMEM\r\n\x1a"
PREAMBLE = Struct("<8sII")
HEADER = Struct("<II")
LOST = Struct("<QQ")
STRING_ID = Struct("<I")
RECTANGLE = Struct("<HHHH")

MAX_EVENTS_PAYLOAD = 4 << 20
MAX_CLIENT_PAYLOAD = 256 << 10  # of any other frame, which is kept until it is complete
MAX_ANSWER_PAYLOAD = 2 << 30
MAX_STRING = 4096
GRID_LIMIT = 32  # columns and rows of the largest core grid that a core set may name
MAX_RECTANGLES = GRID_LIMIT**2  # of a core set: one for each core


class Frame(IntEnum):
    HELLO = 1
    WELCOME = 2
    REFUSED = 3
    DEVICE = 4
    STRING = 5
    CORES = 6
    EVENTS = 7
    RESYNC_BEGIN = 8
    RESYNC_END = 9
    LOST = 10
    QUERY = 11
    ANSWER = 12
    RESEND = 13
    DECLINED = 14
    CHUNK = 15


def preamble(version: int = VERSION) -> bytes:
    """The 16 bytes that open a stream."""
    return PREAMBLE.pack(MAGIC, version, 0)


def frame(kind: Frame, payload: bytes | bytearray | memoryview = b"") -> bytes:
    return HEADER.pack(kind, len(payload)) + payload


def chunk_frame(chunk: bytes) -> list[bytes]:
    """One frame in pieces; the chunk is not copied."""
    return [HEADER.pack(Frame.CHUNK, len(chunk)), chunk]


def json_frame(kind: Frame, document: object) -> bytes:
    """One frame whose payload is JSON."""
    return frame(kind, json.dumps(document, separators=(",", ":")).encode())


def string_frame(number: int, text: str) -> bytes:
    """Declares a string under a number, cut to what the server accepts."""
    return frame(
        Frame.STRING, STRING_ID.pack(number) + text.encode("utf-8", "replace")[:MAX_STRING]
    )


Rectangle = tuple[int, int, int, int]


def cores_frame(number: int, rectangles: tuple[Rectangle, ...]) -> bytes:
    """Declares a set of cores, as rectangles (x0, y0, x1, y1) with both ends included."""
    body = b"".join(RECTANGLE.pack(*rectangle) for rectangle in rectangles)
    return frame(Frame.CORES, STRING_ID.pack(number) + body)


# The first core of each of `rows + 1` rows: multiplied by a row of cores it is a rectangle.
_ROWS = [sum(1 << (y * GRID_LIMIT) for y in range(rows + 1)) for rows in range(GRID_LIMIT)]


def mask_of(rectangles: Iterable[Rectangle]) -> int:
    """A set of cores as bits: bit y * 32 + x is core (x, y). ValueError for a rectangle outside the grid."""
    mask = 0
    for x0, y0, x1, y1 in rectangles:
        if not (x0 <= x1 < GRID_LIMIT and y0 <= y1 < GRID_LIMIT):
            raise ValueError(
                f"rectangle {(x0, y0, x1, y1)} is not inside a {GRID_LIMIT} x {GRID_LIMIT} grid"
            )
        row = (1 << (x1 - x0 + 1)) - 1
        mask |= row * _ROWS[y1 - y0] << (y0 * GRID_LIMIT + x0)
    return mask


def cores_mask(payload: bytes | memoryview) -> tuple[int, int]:
    """(id, bit mask) of a CORES payload. ValueError if the payload is invalid."""
    if len(payload) < 4 or (len(payload) - 4) % RECTANGLE.size:
        raise ValueError("a core set must be an id and whole rectangles")
    if len(payload) > 4 + MAX_RECTANGLES * RECTANGLE.size:
        raise ValueError(f"a core set has at most {MAX_RECTANGLES:,} rectangles")
    return STRING_ID.unpack_from(payload)[0], mask_of(RECTANGLE.iter_unpack(payload[4:]))


def answer_frame(
    document: dict[str, Any], attachments: dict[str, bytes] | None = None
) -> list[bytes]:
    """An answer in pieces that are sent one after the other; attachments are not copied."""
    attachments = attachments or {}
    listed = {name: len(data) for name, data in attachments.items()}
    text = json.dumps({**document, "attachments": listed}, separators=(",", ":")).encode()
    length = 4 + len(text) + sum(listed.values())
    head = HEADER.pack(Frame.ANSWER, length) + STRING_ID.pack(len(text)) + text
    return [head, *attachments.values()]


def parse_answer(payload: bytes | memoryview) -> tuple[dict[str, Any], dict[str, memoryview]]:
    """The JSON document and the attachments of an ANSWER payload."""
    view = memoryview(payload)
    if len(view) < 4:
        raise ValueError("an answer is at least 4 bytes")
    start = 4 + STRING_ID.unpack_from(view)[0]
    try:
        document = json.loads(bytes(view[4:start]))
    except RecursionError:
        raise ValueError("an answer nested without end") from None
    listed = document.pop("attachments", {}) if isinstance(document, dict) else None
    if not isinstance(listed, dict):
        raise ValueError("an answer that is not a JSON object")
    attachments: dict[str, memoryview] = {}
    for name, length in listed.items():
        if not isinstance(length, int) or length < 0:
            raise ValueError(f"an attachment of {length!r:.40} bytes")
        attachments[name] = view[start : start + length]
        start += length
    if start != len(view):
        raise ValueError("an answer's attachments do not fill it")
    return document, attachments


class FrameError(Exception):
    """The stream cannot be read any further; the text says why, for both sides."""


class FrameStream:
    """The frames in the bytes of one connection.

    A batch of events can be taken in several parts, as they arrive, so an incomplete batch occupies next to nothing.
    """

    def __init__(self, peer: str = "client", limit: int = MAX_CLIENT_PAYLOAD) -> None:
        self._peer = peer
        self._limit = limit
        self._data = b""
        self._at = 0
        self._greeted = False
        self._events_left = 0  # bytes of a frame of events that have not been taken

    def feed(self, data: bytes) -> None:
        self.go_on(self.rest + data)

    def go_on(self, data: bytes) -> None:
        """Like `feed`, with `rest` in front of what was received."""
        self._data, self._at = data, 0

    @property
    def rest(self) -> bytes:
        """What has not been taken yet, such as the beginning of an incomplete frame."""
        return self._data[self._at :]

    @property
    def waiting(self) -> int:
        """The size of `rest`."""
        return len(self._data) - self._at

    @property
    def partial(self) -> bool:
        """True if the last frame is incomplete."""
        return self.waiting > 0 or self._events_left > 0

    def take(self) -> tuple[Frame, bytes, int, int] | None:
        """(type, data, offset, length) of the next complete frame or of complete events, without copying them."""
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
                raise FrameError(f"a batch of {length} bytes is not a whole number of events")
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
                raise FrameError("this is not a ttmem stream")
            return False
        magic, version, _ = PREAMBLE.unpack_from(self._data)
        if magic != MAGIC:
            raise FrameError("this is not a ttmem stream")
        if version != VERSION:
            mine = "server" if self._peer == "client" else "client"
            raise FrameError(
                f"this {self._peer} speaks version {version} of ttmem's protocol, this {mine} speaks version {VERSION};"
                " install the same ttmem on both sides"
            )
        self._at = PREAMBLE.size
        self._greeted = True
        return True
