"""What the server records: into its own files, and as a stream of chunks for clients that record it or show the past.

One recorder serves all subscribers: chunks are made once. The server never waits for a subscriber. One that reads too
slowly loses chunks, and continues with the next FILE chunk, which is followed by everything that is needed to read on.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from ttmem.clock import now_ns
from ttmem.ledger import Books
from ttmem.procfs import user_title
from ttmem.recording.flight import FlightRecorder, Sampler
from ttmem.recording.format import HEADER_SIZE, ChunkType, Header
from ttmem.recording.recorder import Recorder, described
from ttmem.recording.times import SECOND_NS
from ttmem.recording.writer import Sink
from ttmem.server.connections import keep_freed_memory
from ttmem.server.log import Log
from ttmem.sources.socket.peer import Peer
from ttmem.text import printable
from ttmem.wire import frames

PATIENCE = 1.0  # seconds for clients that record what the server sees
FILE_PATIENCE = 5.0  # seconds to write the end of a recording
MAX_MARK = 500  # characters
MOST_SUBSCRIBERS = 16
MOST_WAITING = 64 << 20  # bytes for one subscriber; one chunk may exceed it
HELD_MIB = 31  # receive buffers that wait for the recorder's thread come and go, up to twice this
AT_ONCE = 128 << 10  # bytes given to a connection before it has sent them
AGAIN_NS = (
    2 * SECOND_NS
)  # least time between two FILE chunks for subscribers that have lost something
FILE_BYTES = (
    32 << 20
)  # for subscribers that keep only the last files, a file ends after so many bytes
FILE_NS = 300 * SECOND_NS  # or after this time


class _Subscriber:
    def __init__(self, peer: Peer, ring: bool) -> None:
        self.peer = peer
        self.ring = ring  # keeps only the last files
        self.queue: deque[bytes] = deque()
        self.waiting = 0
        self.reads = False  # otherwise nothing is useful before the next FILE chunk
        self.until: int | None = None  # it asked to stop, at this position
        self.ended = False


class Stream:
    """The sink of a recorder that runs while there are subscribers. `wake` makes the loop call `send`."""

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

    @property
    def in_file(self) -> bool:
        """Whether somebody keeps all of it, as `ttmem record` does; live pages keep the last hour."""
        return any(not subscriber.ring for subscriber in self._subscribers)

    def subscribe(self, peer: Peer, ring: bool) -> str | None:
        """Starts sending chunks; returns a sentence if that is refused."""
        if self._of(peer) is not None:
            return "this connection records already"
        if len(self._subscribers) >= MOST_SUBSCRIBERS:
            return f"{MOST_SUBSCRIBERS} others record already or run `ttmem top`; end one of them"
        with self._lock:
            self._subscribers.append(_Subscriber(peer, ring))
        if self._recorder is None:
            self._begun_ns = now_ns()
            keep_freed_memory(HELD_MIB)
            self._recorder = Recorder(self._books, self, described(), host=self._host)
        else:
            self._begin_file(self._recorder, now_ns(), anew=True)
        return None

    def end(self, peer: Peer) -> bool:
        """Sends what there is so far, then an answer; False if it is not a subscriber."""
        found = self._of(peer)
        if found is not None and self._recorder is not None:
            found.until = self._recorder.position
            self._recorder.end_file(now_ns())
        return found is not None

    def again(self, peer: Peer) -> bool:
        """It has lost something, so nothing is useful to it before a FILE chunk; False if it is not a subscriber."""
        found = self._of(peer)
        if found is not None:
            found.reads = False
        return found is not None

    def serves(self, peer: Peer) -> bool:
        return self._of(peer) is not None

    def _of(self, peer: Peer) -> _Subscriber | None:
        return next(
            (subscriber for subscriber in self._subscribers if subscriber.peer is peer), None
        )

    def forget(self, peer: Peer) -> None:
        with self._lock:
            self._subscribers = [
                subscriber for subscriber in self._subscribers if subscriber.peer is not peer
            ]
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
            lost = any(
                not subscriber.reads and subscriber.waiting == 0 for subscriber in self._subscribers
            )
            if recorder.ready and self._is_over(lost, now):
                self._begin_file(recorder, now, anew=lost)

    def _is_over(self, lost: bool, now: int) -> bool:
        age = now - self._begun_ns
        full = any(subscriber.ring for subscriber in self._subscribers) and (
            self._size >= FILE_BYTES or age >= FILE_NS
        )
        return full or (lost and age >= AGAIN_NS) or age < 0

    def _begin_file(self, recorder: Recorder, now: int, anew: bool) -> None:
        self._begun_ns = now
        recorder.begin_file(now, anew=anew)

    def send(self) -> None:
        """Gives each connection as much as it accepts now."""
        for subscriber in tuple(self._subscribers):
            if subscriber.queue or subscriber.ended:
                self._send(subscriber)
                self._settle(subscriber.peer)

    def _send(self, subscriber: _Subscriber) -> None:
        while subscriber.queue and subscriber.peer.unread < AT_ONCE and not subscriber.peer.closed:
            with self._lock:
                chunk = subscriber.queue.popleft()
                subscriber.waiting -= len(chunk)
            subscriber.peer.send(frames.chunk_frame(chunk))
        if subscriber.ended and not subscriber.queue:
            subscriber.peer.send(frames.answer_frame({"done": True}))
            self.forget(subscriber.peer)

    def end_all(self, seconds: float = PATIENCE) -> None:
        """The server stops: every subscriber gets the end of its recording, if it reads fast enough."""
        if self._recorder is None:
            return
        end = time.monotonic() + seconds
        for subscriber in self._subscribers:
            subscriber.until = 0
        self._recorder.close(seconds)
        poll = select.poll()
        waiting = {subscriber.peer.socket.fileno(): subscriber for subscriber in self._subscribers}
        for number in waiting:
            poll.register(number, select.POLLOUT)
        while waiting and (left := end - time.monotonic()) > 0:
            for number, _ in poll.poll(1000 * left):
                subscriber = waiting[number]
                subscriber.peer.writable()
                if not subscriber.peer.closed:
                    self._send(subscriber)
                if subscriber.peer.closed or not (subscriber.queue or subscriber.peer.unread):
                    poll.unregister(number)
                    del waiting[number]

    # -- called by the thread of the recorder (Sink) -------------------------------------------------------------

    def append(self, chunk: bytes) -> None:
        header = Header.unpack(chunk[:HEADER_SIZE])
        with self._lock:
            if header.type == ChunkType.FILE:
                self._size = 0
            self._size += len(chunk)
            for subscriber in self._subscribers:
                self._offer(subscriber, header, chunk)
        self._wake()

    def _offer(self, subscriber: _Subscriber, header: Header, chunk: bytes) -> None:
        is_end = header.type == ChunkType.END
        asked = subscriber.until is not None and header.position >= subscriber.until
        if subscriber.ended or (is_end and not asked):
            return
        if header.type == ChunkType.FILE and subscriber.waiting <= MOST_WAITING // 2:
            subscriber.reads = True
        if subscriber.waiting > MOST_WAITING and not is_end:
            subscriber.reads = False
        if subscriber.reads or is_end:
            subscriber.queue.append(chunk)
            subscriber.waiting += len(chunk)
        subscriber.ended = is_end

    def close(self) -> None:
        """The subscribers still have to be sent what waits for them."""


class ServerRecordings:
    """Both kinds; only root and the server's own user may ask for a stream or set a mark."""

    def __init__(
        self,
        books: Books,
        host: Mapping[str, Any],
        log: Log,
        settle: Callable[[Peer], None],
        wake: Callable[[], None],
    ) -> None:
        self._books, self._host, self._log = books, host, log
        self.stream = Stream(books, host, settle, wake)
        self._recorder: Recorder | FlightRecorder | None = None

    def record(self, sink: Sink, about: Mapping[str, Any]) -> Recorder:
        """Records everything from now on, until the server stops."""
        self._recorder = recorder = Recorder(self._books, sink, about, host=self._host)
        return recorder

    def record_always(
        self,
        folder: str,
        keep: int,
        age_ns: int,
        sampler: Callable[[Callable[[Mapping[str, Any], int], None]], Sampler],
    ) -> None:
        """Like `record`, into a ring of files, with the sensors; BadInput if the directory cannot be used."""
        keep_freed_memory(HELD_MIB)
        self._recorder = FlightRecorder(
            self._books,
            folder,
            keep,
            age_ns,
            host=self._host,
            sampler=sampler,
            info=self._log.info,
            problem=self._log.problem,
        )

    def tick(self, now: int) -> None:
        """To be called once a second."""
        if self._recorder is not None:
            self._recorder.tick(now)

    def mark(self, peer: Peer, text: object) -> list[bytes]:
        """The answer to a client that sets a mark."""
        if not _is_trusted(peer):
            return _refusal("only root and the server's user may set marks")
        if not isinstance(text, str) or not 0 < len(text) <= MAX_MARK:
            return _refusal(f"a mark is a text of 1 to {MAX_MARK} characters")
        if self._recorder is None and not self.stream:
            return _refusal(
                "nobody records; start the server with `ttmem serve --record DIR`, or `ttmem record`"
            )
        for recorder in (self._recorder, self.stream):
            if recorder:
                recorder.mark(printable(text), now_ns(), peer.pid)
        folder = self._recorder.folder if isinstance(self._recorder, FlightRecorder) else None
        in_file = self.stream.in_file or (self._recorder is not None and folder is None)
        return frames.answer_frame({"done": True, "folder": folder, "in_file": in_file})

    def serve(self, peer: Peer, document: Mapping[str, Any]) -> list[bytes]:
        """The answer to a client that begins, goes on with, or ends a stream.

        Events and command lines of all users are only for those who could read them anyway; else ValueError.
        """
        if not _is_trusted(peer):
            raise ValueError(
                f"only root and {user_title(os.geteuid())}, who runs this server, may record what it sees"
            )
        for name, act in (("end", self.stream.end), ("again", self.stream.again)):
            if document.get(name) is True:
                return [] if act(peer) else _refusal("this connection does not record")
        problem = self.stream.subscribe(peer, document.get("ring") is True)
        return _refusal(problem) if problem else frames.answer_frame({"done": True})

    def close(self) -> None:
        if self._recorder is not None:
            self._recorder.close(FILE_PATIENCE)


def _is_trusted(peer: Peer) -> bool:
    return peer.uid in (0, os.geteuid())


def _refusal(why: str) -> list[bytes]:
    return frames.answer_frame({"error": why})
