"""What the server sees, as a stream of chunks for everybody who records it or wants to look back.

One recorder serves all subscribers, whatever their number: chunks are made once. The server never waits for a
subscriber: one that reads too slowly loses chunks, and goes on with the next FILE chunk, behind which everything
comes that is needed to read on.
"""

from __future__ import annotations

import select
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from ttmem.clock import now_ns
from ttmem.ledger import Books
from ttmem.recording.format import HEADER_SIZE, ChunkType, Header
from ttmem.recording.recorder import Recorder, described
from ttmem.recording.when import SECOND_NS
from ttmem.sources.socket.peer import Peer
from ttmem.wire import frames

MOST_SUBSCRIBERS = 16
MOST_WAITING = 64 << 20  # bytes for one subscriber; one chunk may exceed it
AT_ONCE = 128 << 10  # bytes given to a connection before it has sent them
AGAIN_NS = 2 * SECOND_NS  # at least between two FILE chunks for those who have lost something
FILE_BYTES = 32 << 20  # a file for those who keep the last ones only ends with so many bytes
FILE_NS = 300 * SECOND_NS  # or after this time


class _Subscriber:
    def __init__(self, peer: Peer, ring: bool) -> None:
        self.peer = peer
        self.ring = ring  # keeps the last files only
        self.queue: deque[bytes] = deque()
        self.waiting = 0
        self.reads = False  # else nothing is of use before the next FILE chunk
        self.until: int | None = None  # it has asked to end: at this position
        self.ended = False


class Stream:
    """The sink of a recorder that exists while there are subscribers. `wake` makes the loop call `send`."""

    def __init__(
        self,
        books: Books,
        host: Mapping[str, Any],
        settle: Callable[[Peer], None],
        wake: Callable[[], None],
    ) -> None:
        self._books, self._host = books, host
        self._settle, self._wake = settle, wake
        self._recorder: Recorder | None = None
        self._subscribers: list[_Subscriber] = []
        self._lock = threading.Lock()  # of the queues
        self._begun_ns = 0
        self._size = 0  # of the current file

    def __bool__(self) -> bool:
        return self._recorder is not None

    # -- called by the loop --------------------------------------------------------------------------------------

    def subscribe(self, peer: Peer, ring: bool) -> str | None:
        """Chunks follow from now on; a sentence says why not."""
        if self._of(peer) is not None:
            return "this connection records already"
        if len(self._subscribers) >= MOST_SUBSCRIBERS:
            return f"{MOST_SUBSCRIBERS} others record already or run `ttmem top`; end one of them"
        with self._lock:
            self._subscribers.append(_Subscriber(peer, ring))
        if self._recorder is None:
            self._begun_ns = now_ns()
            self._recorder = Recorder(
                self._books, _ToSubscribers(self), described(), host=self._host
            )
        else:
            self._begin_file(self._recorder, now_ns(), anew=True)
        return None

    def end(self, peer: Peer) -> bool:
        """What there is up to now follows, and then an answer; False if it is no subscriber."""
        found = self._of(peer)
        if found is not None and self._recorder is not None:
            found.until = self._recorder.position
            self._recorder.end_file(now_ns())
        return found is not None

    def again(self, peer: Peer) -> bool:
        """It has lost something, so nothing is of use to it before a FILE chunk; False if it is no subscriber."""
        found = self._of(peer)
        if found is not None:
            found.reads = False
        return found is not None

    def _of(self, peer: Peer) -> _Subscriber | None:
        return next((one for one in self._subscribers if one.peer is peer), None)

    def forget(self, peer: Peer) -> None:
        with self._lock:
            self._subscribers = [one for one in self._subscribers if one.peer is not peer]
        if not self._subscribers and self._recorder is not None:
            self._recorder.close(0)
            self._recorder = None

    def mark(self, text: str, now: int, pid: int | None) -> None:
        if self._recorder is not None:
            self._recorder.mark(text, now, pid)

    def tick(self, now: int) -> None:
        """To be called after each reading, and before an answer whose figures the recording should have."""
        if (recorder := self._recorder) is not None:
            recorder.tick(now)
            lost = any(not one.reads and one.waiting == 0 for one in self._subscribers)
            if recorder.ready and self._is_over(lost, now):
                self._begin_file(recorder, now, anew=lost)

    def _is_over(self, lost: bool, now: int) -> bool:
        age = now - self._begun_ns
        full = any(one.ring for one in self._subscribers) and (
            self._size >= FILE_BYTES or age >= FILE_NS
        )
        return full or (lost and age >= AGAIN_NS) or age < 0

    def _begin_file(self, recorder: Recorder, now: int, anew: bool) -> None:
        self._begun_ns = now
        recorder.begin_file(now, anew=anew)

    def send(self) -> None:
        """Gives each connection as much as it can take now."""
        for one in tuple(self._subscribers):
            if one.queue or one.ended:
                self._send(one)
                self._settle(one.peer)

    def _send(self, one: _Subscriber) -> None:
        while one.queue and one.peer.unread < AT_ONCE and not one.peer.closed:
            with self._lock:
                chunk = one.queue.popleft()
                one.waiting -= len(chunk)
            one.peer.send(frames.chunk_frame(chunk))
        if one.ended and not one.queue:
            one.peer.send(frames.answer_frame({"done": True}))
            self.forget(one.peer)

    def close(self, seconds: float) -> None:
        """The server stops: every subscriber gets the end of its recording, as far as it reads it in that time."""
        if self._recorder is None:
            return
        end = time.monotonic() + seconds
        for one in self._subscribers:
            one.until = 0
        self._recorder.close(seconds)
        poll = select.poll()
        waiting = {one.peer.socket.fileno(): one for one in self._subscribers}
        for number in waiting:
            poll.register(number, select.POLLOUT)
        while waiting and (left := end - time.monotonic()) > 0:
            for number, _ in poll.poll(1000 * left):
                one = waiting[number]
                one.peer.writable()
                if not one.peer.closed:
                    self._send(one)
                if one.peer.closed or not (one.queue or one.peer.unread):
                    poll.unregister(number)
                    del waiting[number]

    # -- called by the thread of the recorder --------------------------------------------------------------------

    def take(self, chunk: bytes) -> None:
        header = Header.unpack(chunk[:HEADER_SIZE])
        with self._lock:
            if header.type == ChunkType.FILE:
                self._size = 0
            self._size += len(chunk)
            for one in self._subscribers:
                self._offer(one, header, chunk)
        self._wake()

    def _offer(self, one: _Subscriber, header: Header, chunk: bytes) -> None:
        is_end = header.type == ChunkType.END
        asked = one.until is not None and header.position >= one.until
        if one.ended or (is_end and not asked):
            return
        if header.type == ChunkType.FILE and one.waiting <= MOST_WAITING // 2:
            one.reads = True
        if one.waiting > MOST_WAITING and not is_end:
            one.reads = False
        if one.reads or is_end:
            one.queue.append(chunk)
            one.waiting += len(chunk)
        one.ended = is_end


class _ToSubscribers:
    """See `Sink`."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def append(self, chunk: bytes) -> None:
        self._stream.take(chunk)

    def close(self) -> None:
        pass
