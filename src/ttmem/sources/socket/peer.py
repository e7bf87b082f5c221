"""One connection to the allocation socket, speaking either protocol."""

from __future__ import annotations

import json
import socket
from collections import deque
from fcntl import ioctl
from struct import unpack
from termios import FIONREAD
from time import monotonic
from typing import Any, Protocol

from ttmem._native import receive
from ttmem.events import DeviceDeclaration
from ttmem.wire import frames
from ttmem.wire.frames import Frame, FrameError, FrameStream
from ttmem.wire.historical import (
    Head,
    HistoricalQuery,
    Item,
    RecordStream,
)

RECEIVE = 256 << 10
# While a peer has more than this to read, nothing is read from it. So a peer that never reads its answers blocks only
# itself, and takes at most this, one answer and one receive.
MAX_UNREAD = 256 << 10
FEW = 4096
OF_A_PIECE = 256  # overhead in bytes of a waiting piece of an answer
HISTORICAL = ""  # the reporter of all historical connections of a process, which name none
FOREVER = float("inf")


class Receiver(Protocol):
    """Receives what a peer sends."""

    def hello(self, peer: Peer, document: dict[str, Any]) -> str | None:
        """A ttmem client introduces itself; returns a sentence to refuse it."""

    def declare(self, peer: Peer, declaration: DeviceDeclaration) -> None:
        """ValueError if it is impossible."""

    def string(self, peer: Peer, number: int, text: str) -> None: ...

    def cores(self, peer: Peer, number: int, mask: int) -> None: ...

    def events(self, peer: Peer, data: bytes, offset: int, length: int) -> None: ...

    def resync(self, peer: Peer, begin: bool) -> None: ...

    def lost(self, peer: Peer, dropped: int, overflow: int) -> None: ...

    def query(self, peer: Peer, document: dict[str, Any]) -> list[bytes]: ...

    def question(self, peer: Peer, head: Head, record_size: int) -> bytes | None: ...

    def problem(self, peer: Peer, text: str, records: int) -> None: ...


class Peer:
    """Turns received bytes into calls on the sink, and sends answers without blocking.

    Requests are handled in steps, so that a peer with endless requests does not delay others.
    """

    def __init__(self, connection: socket.socket, pid: int, uid: int, sink: Receiver) -> None:
        connection.setblocking(False)
        self.socket = connection
        self.pid = pid
        self.uid = uid
        self.greeted = False  # has sent a valid HELLO
        self.reporter: str | None = None  # which client of its process, if it says so
        self.hears = False  # understands unsolicited frames from the server
        self.closed = False
        self.reporting = False  # rather than querying, or having sent nothing yet; set by the loop
        self.deaf = False  # nobody reads its answers
        self.ending = False  # it is closed after what it has sent
        self.paused = False  # what it has sent is not handled yet
        self.unread = 0  # bytes of memory taken by unread answers
        self.sent = 0  # bytes, so far
        self._sink = sink
        self._records: RecordStream | None = None
        self._items: deque[Item] = deque()  # from the records, in order
        self._frames: FrameStream | None = None
        self._more = False  # there may be another complete frame
        self._unsent: deque[memoryview] = deque()
        self._closing = False  # after the last byte is sent
        self._rest: int | None = None  # bytes still to be received, if it is ending

    # -- state, for the event loop -----------------------------------------------------------------------------

    @property
    def wants_write(self) -> bool:
        return bool(self._unsent)

    @property
    def wants_read(self) -> bool:
        """False while the peer is paused, or has to read its answers first."""
        return not (self._closing or self.paused) and self.unread <= MAX_UNREAD

    @property
    def busy(self) -> bool:
        """Whether `readable` can continue without receiving anything."""
        return (self._more or bool(self._items)) and self.wants_read and not self.closed

    @property
    def unfinished(self) -> int:
        """Bytes that wait for the rest of their frame, or to be handled; 0 if there are few."""
        waiting = self._frames.waiting if self._frames is not None else 0
        return waiting if waiting > FEW else 0

    @property
    def patience(self) -> float | None:
        """After how many seconds of silence `quiet` should be called; None for never."""
        records = self._records
        return records.patience if records is not None and records.waiting else None

    @property
    def protocol(self) -> str:
        """For provenance."""
        if self._frames is not None:
            return "ttmem client"
        size = self._records.record_size if self._records else None
        return f"historical client, {size}-byte records" if size else "historical client"

    # -- reading -----------------------------------------------------------------------------------------------

    def readable(self, most: int = RECEIVE, until: float = FOREVER) -> int:
        """Continues with what was received, or receives once, until that time. Returns the number of bytes received."""
        received = 0
        if self.paused:
            return 0
        if not self.busy:
            rest = b"" if self._frames is None else self._frames.rest
            try:
                data = receive(self.socket.fileno(), rest, most)
            except (BlockingIOError, InterruptedError):
                return 0
            except OSError:
                data = rest
            received = len(data) - len(rest)
            if not received:
                self._ended()
                return 0
            self._feed(data)
        self._work(until)
        return received

    def quiet(self) -> None:
        """The socket was silent for a while."""
        if self._records is not None:
            self._items.extend(self._records.quiet())
            self._work(FOREVER)

    def hung_up(self) -> None:
        """The other end is gone. What it sent still counts, but nobody will read answers."""
        self.deaf = True
        self._unsent.clear()
        self.unread = 0

    def end(self) -> None:
        """From now on only `take_rest` reads, what has been sent so far."""
        self.hung_up()
        self.ending = True

    def take_rest(self, until: float) -> None:
        """A step: handles some of what was sent, without answering. Closes after the last."""
        if self.paused or self.closed:
            return
        if self._rest is None:
            self._rest = _waiting(self.socket)
        if self.busy:
            self._work(until)
        elif self._rest:
            received = self.readable(min(RECEIVE, self._rest), until)
            self._rest = self._rest - received if received else 0
        if not (self._rest or self.busy or self.closed):
            self._ended()

    def _feed(self, data: bytes) -> None:
        """Takes what was received, behind what is left of a frame."""
        if self._records is None and self._frames is None:
            if data[:1] == frames.MAGIC[:1]:
                self._frames = FrameStream()
            else:
                self._records, self.reporter = RecordStream(self.pid), HISTORICAL
        if self._records is not None:
            self._items.extend(self._records.feed(data))
        elif self._frames is not None:
            self._frames.go_on(data)
            self._more = True

    def _work(self, until: float) -> None:
        while self.busy:
            if self._items:
                self._item(self._items.popleft())
            else:
                self._take_frame()
            if monotonic() >= until:
                break

    def _ended(self) -> None:
        if self._records is not None:
            self._items.extend(self._records.end())
            self._work(FOREVER)
        elif self._frames is not None and self._frames.partial:
            self._sink.problem(self, "the connection ended inside a frame", 0)
        self.close()

    def _item(self, item: Item) -> None:
        if isinstance(item, bytes):
            self._sink.events(self, item, 0, len(item))
        elif isinstance(item, HistoricalQuery):
            if self.deaf:
                return
            answer = self._sink.question(self, item.head, item.record_size)
            if answer is not None:
                self.send([answer])
        else:
            end = "; connection dropped" if item.ends else ""
            self._sink.problem(self, item.text + end, item.records)
            if item.ends:
                self.close()

    # -- ttmem's own framing -----------------------------------------------------------------------------------

    def _take_frame(self) -> None:
        assert self._frames is not None
        try:
            taken = self._frames.take()
            if taken is None:
                self._more = False
                return
            kind, data, offset, length = taken
            if kind is Frame.EVENTS and self.greeted:
                self._sink.events(self, data, offset, length)
            else:
                self._frame(kind, data[offset : offset + length])
        except (FrameError, ValueError) as problem:
            self.refuse(str(problem))

    def _frame(self, kind: Frame, payload: bytes) -> None:
        if kind is Frame.HELLO:
            self._hello(payload)
        elif not self.greeted:
            raise FrameError(f"{kind.name} came before HELLO")
        elif kind is Frame.DEVICE:
            self._declare(_document(payload))
        elif kind is Frame.STRING:
            if not 4 <= len(payload) <= 4 + frames.MAX_STRING:
                raise FrameError(f"a string of {len(payload)} bytes is too short or too long")
            self._sink.string(
                self,
                frames.STRING_ID.unpack_from(payload)[0],
                payload[4:].decode("utf-8", "replace"),
            )
        elif kind is Frame.CORES:
            self._sink.cores(self, *frames.cores_mask(payload))
        elif kind in (Frame.RESYNC_BEGIN, Frame.RESYNC_END):
            self._sink.resync(self, kind is Frame.RESYNC_BEGIN)
        elif kind is Frame.LOST:
            if len(payload) != frames.LOST.size:
                raise FrameError("LOST has 16 bytes")
            self._sink.lost(self, *frames.LOST.unpack(payload))
        elif kind is Frame.QUERY:
            if not self.deaf:
                self.send(self._sink.query(self, _document(payload)))
        else:
            raise FrameError(f"only servers send {kind.name}")

    def _declare(self, document: dict[str, Any]) -> None:
        """An invalid declaration is declined without closing the connection."""
        try:
            self._sink.declare(self, DeviceDeclaration.from_json(document))
        except ValueError as problem:
            self._sink.problem(self, f"declaration declined: {problem}", 0)
            self.tell(Frame.DECLINED, str(problem))

    def tell(self, kind: Frame, sentence: str) -> bool:
        """Sends an optional message; False if the client does not understand such messages."""
        if self.hears and not self.closed:
            self.send([frames.frame(kind, sentence.encode())])
        return self.hears

    def _hello(self, payload: bytes) -> None:
        if self.greeted:
            raise FrameError("HELLO came twice")
        document = _document(payload)
        self.hears = document.get("hears") is True
        refusal = self._sink.hello(self, document)
        if refusal:
            raise FrameError(refusal)
        self.greeted = True

    def refuse(self, sentence: str) -> None:
        """Tells the client why, then closes."""
        self._sink.problem(self, f"client refused: {sentence}", 0)
        self._closing = True
        self.send(self._refusal(sentence))

    def evict(self, sentence: str) -> None:
        """Closes at once, telling the client why if that does not block."""
        if self._frames is not None and not self._unsent:
            self.send(self._refusal(sentence))
        self.close()

    def _refusal(self, sentence: str) -> list[bytes]:
        opening = [] if self.greeted else [frames.preamble()]  # a greeted client has had one
        return [*opening, frames.frame(Frame.REFUSED, sentence.encode())]

    # -- writing -----------------------------------------------------------------------------------------------

    def send(self, pieces: list[bytes]) -> None:
        """Sends what the socket accepts now, and the rest later."""
        if self.deaf:
            pieces = []
        for piece in pieces:
            self._unsent.append(memoryview(piece))
            self.unread += len(piece) + OF_A_PIECE
        self.writable()

    def writable(self) -> None:
        while self._unsent and not self.closed:
            piece = self._unsent[0]
            try:
                sent = self.socket.send(piece, socket.MSG_NOSIGNAL)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                self.close()
                return
            self.sent += sent
            if sent == len(piece):
                self._unsent.popleft()
                # It was kept as a whole until now.
                self.unread -= memoryview(piece.obj).nbytes + OF_A_PIECE
            else:
                self._unsent[0] = piece[sent:]
        if self._closing:
            self.close()

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._items.clear()
            self._unsent.clear()
            self.unread = 0


def _waiting(connection: socket.socket) -> int:
    """How many bytes were sent and not received."""
    number: int = unpack("i", ioctl(connection, FIONREAD, bytes(4)))[0]
    return number


def _document(payload: bytes) -> dict[str, Any]:
    try:
        document = json.loads(payload)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise FrameError("a payload is not a JSON object")
    return document
