"""Writes chunks. A thread compresses and writes, so callers never wait.

If the disk is full, or slower than the events, records are dropped and counted, and the next RECORDS chunk says how
many are missing before it. What follows such a gap can be replayed only from the next key frame, so `gap` asks for one.
"""

from __future__ import annotations

import signal
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, Protocol

from ttmem._native import Page
from ttmem.events import EVENT_SIZE
from ttmem.recording.format import (
    CHUNK_RECORDS,
    ChunkType,
    RecordsEncoder,
    encode_long,
    from_document,
)

BUDGET = 64 << 20  # bytes that may wait for the thread
FLUSH_S = 0.4  # seconds that records wait for a chunk to fill
CHUNK_BYTES = CHUNK_RECORDS * EVENT_SIZE
PIECE = 4096  # records: with fewer, a batch fits into a page that is not full
RETRY_S = 1.0  # after a chunk that could not be written; doubled each time, up to RETRY_MAX_S
RETRY_MAX_S = 60.0
MOST_UNWRITTEN = 1 << 20  # bytes of markers that wait for a sink that refuses them


class Sink(Protocol):
    """Where chunks go."""

    def append(self, chunk: bytes) -> None:
        """Appends all of it or nothing; OSError."""

    def close(self) -> None: ...


class Written(NamedTuple):
    """The progress of a recording."""

    records: int
    bytes: int
    lost: int  # records
    problem: str | None  # why the last chunk could not be written
    reason: str | None  # why the latest records were lost; None: none was, or the disk is too slow
    state_bytes: int  # of the last key frame
    bytes_since: int  # the last key frame


class _Document(NamedTuple):
    position: int
    kind: ChunkType
    data: bytes
    time: int


class _Records(NamedTuple):
    """Records of consecutive positions."""

    position: int
    page: Page
    opened: float

    @property
    def end(self) -> int:
        return self.position + self.page.size() // EVENT_SIZE


class Writer:
    """Feeds a sink from a thread. One other thread feeds the writer.

    Each counter is written by only one of the two threads; `_lock` guards which page is being filled. Filling it takes
    no lock: once it is sealed, it takes nothing more. After a gap there is no page until the next key frame.
    """

    def __init__(
        self,
        sink: Sink,
        *,
        stream: int,
        started_ns: int,
        position: int = 0,
        budget: int = BUDGET,
    ) -> None:
        self.gap = False  # records were dropped: nothing is useful before the next key frame
        self.forgetful = False  # so were documents, such as names: they have to be repeated
        self._sink = sink
        self._stream = stream
        self._budget = budget
        self._queue: deque[_Records | _Document] = deque()
        self._given = 0  # bytes of memory for documents, and for records in earlier pages
        self._dropped = 0  # records that were dropped
        self._closing = False
        self._lock = threading.Lock()
        self._filled: _Records | None = None
        self._page = Page()  # the one that is being filled; sealed if there is none
        self._page.seal()
        self._before = position  # the position without the records in that page
        self._wake = threading.Condition()
        self._idle = False  # the thread waits to be called
        self._wake_at = min(CHUNK_BYTES, budget // 2)
        # Changed only by the thread.
        self._taken = 0  # of those that were given
        self._records = self._bytes = self._failed = self._state_bytes = self._state_end = 0
        self._problem: str | None = None
        self._reason: str | None = None
        self._retry_at, self._retry_after = 0.0, RETRY_S
        self._torn = False  # a chunk could not be written since the last key frame
        self._waiting: _Document | None = None  # the latest context since then
        self._unwritten: list[_Document] = []  # markers, which nobody can repeat
        self._encoder = RecordsEncoder(stream, max(0, started_ns))
        self._end = position  # after the last record that was written
        self._thread = threading.Thread(target=self._run, name="ttmem-recording", daemon=True)
        # Signals are for the thread that waits for them: `ttmem run` passes them on.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        self._thread.start()
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    # -- called by the feeding thread --------------------------------------------------------------------------------

    @property
    def position(self) -> int:
        """Of the next record."""
        return self._before + self._page.size() // EVENT_SIZE

    def records(self, control: bytes) -> None:
        """A control record and the records that belong to it, which stay in one chunk."""
        if not self._page.control(control) and (page := self._next_page(len(control))) is not None:
            page.control(control)

    def batch(
        self,
        account: int,
        arrived_ns: int,
        position: int,
        serial: int,
        data: bytes,
        begin: int,
        end: int,
    ) -> Page | None:
        """Events of one process, fewer than PIECE, which come behind a BATCH record.

        Others may be added to the returned page, until it takes no more; None if these were dropped.
        """
        if not self._page.batch(account, arrived_ns, position, serial, data, begin, end):
            page = self._next_page(EVENT_SIZE + end - begin)
            if page is None:
                return None
            page.batch(account, arrived_ns, position, serial, data, begin, end)
        return self._page

    def _next_page(self, size: int) -> Page | None:
        """A page for records of so many bytes; None if they are dropped."""
        waiting = self._waiting_bytes() + size
        if self.gap or waiting > self._budget:
            self.interrupt()
            self._before += size // EVENT_SIZE
            self._dropped += size // EVENT_SIZE
            return None
        if self._idle and waiting >= self._wake_at:
            self._idle = False  # called once is enough
            self._call()
        with self._lock:
            self._seal()
            self._before, self._given = self.position, self._given + self._page.held()
            self._page = page = Page(min(CHUNK_BYTES, self._budget // 4))
            self._filled = _Records(self._before, page, time.monotonic())
        return page

    def interrupt(self, *, forgetful: bool = False) -> None:
        """What follows is dropped until the next key frame."""
        self.gap, self.forgetful = True, self.forgetful or forgetful
        with self._lock:
            self._seal()

    def _waiting_bytes(self) -> int:
        return self._given + self._page.held() - self._taken

    def _seal(self) -> None:
        """With the lock held: the page that was being filled waits for the thread."""
        if self._filled is not None:
            self._page.seal()
            self._queue.append(self._filled)
            self._filled = None

    def document(self, kind: ChunkType, document: object, now: int) -> bool:
        """Writes a JSON document; False if it is dropped."""
        return self.payload(kind, from_document(document), now)

    def payload(self, kind: ChunkType, data: bytes, now: int) -> bool:
        """Writes anything but records; False if it is dropped.

        Records before a key frame or an end are written before it.
        """
        if self._waiting_bytes() > 2 * self._budget:  # documents are small, so the sink is stuck
            self.interrupt(forgetful=True)
            return False
        self._given += len(data)
        document = _Document(self.position, kind, data, max(0, now))
        if kind in (ChunkType.STATE, ChunkType.END):
            with self._lock:
                self._seal()
                self._queue.append(document)
        else:
            self._queue.append(document)
        if kind is ChunkType.STATE:
            self.gap = False
        return True

    @property
    def ready(self) -> bool:
        """Whether a key frame is worth making: the queue has space, and the sink may accept it."""
        if self._waiting_bytes() > self._budget // 2:
            return False
        return self._problem is None or time.monotonic() >= self._retry_at

    def written(self) -> Written:
        return Written(
            self._records,
            self._bytes,
            self._dropped + self._failed,
            self._problem,
            self._reason,
            self._state_bytes,
            self._bytes - self._state_end,
        )

    def close(self, seconds: float = 30.0) -> Written:
        """Writes what is waiting, for at most `seconds`. The thread closes the sink when it is done."""
        self._closing = True
        self._call()
        self._thread.join(seconds)
        return self.written()

    def _call(self) -> None:
        with self._wake:
            self._wake.notify()

    # -- the thread ----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        closing = False
        while not closing or self._queue:
            self._wait()
            closing = self._closing
            filled = self._filled
            if filled is not None and (closing or time.monotonic() - filled.opened >= FLUSH_S):
                with self._lock:
                    self._seal()
            while self._queue:
                self._take(self._queue.popleft())
        self._sink.close()

    def _wait(self) -> None:
        with self._wake:
            self._idle = True
            full = self._closing or self._waiting_bytes() >= self._wake_at
            if not full:
                self._wake.wait(FLUSH_S)
            self._idle = False

    def _take(self, what: _Records | _Document) -> None:
        if isinstance(what, _Document):
            self._guarded(self._write_document, what)
            self._taken += len(what.data)
            return
        self._guarded(self._write_records, what)
        self._taken += what.page.held()

    def _guarded(self, act: Callable[..., None], *given: object) -> None:
        try:
            act(*given)
        except Exception as problem:  # such as MemoryError: the recording has a gap, and continues
            self._note(str(problem) or type(problem).__name__)

    def _write_records(self, what: _Records) -> None:
        position, end = what.position, what.end
        written = False
        try:
            if not self._torn:
                chunk = self._encoder.encode(
                    what.page,
                    (end - position) * EVENT_SIZE,
                    position=position,
                    lost=position - self._end,
                )
                written = self._append(chunk)
        finally:
            if written:
                self._end = end
                self._records += end - position
            else:
                self._failed += end - position

    def _write_document(self, what: _Document) -> None:
        """After a chunk that could not be written, contexts and records wait for a key frame: they build on it."""
        if what.kind is ChunkType.FILE:  # no file begins before its own time
            self._encoder.reached_ns = max(self._encoder.reached_ns, what.time)
        if self._torn and what.kind is ChunkType.CONTEXT:
            self._waiting = what  # the one before a key frame is complete
            return
        if what.kind is ChunkType.MARKS:
            self._unwritten.append(what)
        if what.kind in (ChunkType.MARKS, ChunkType.END):
            self._write_marks()
        if self._torn and what.kind is ChunkType.STATE:
            if self._waiting is not None and not self._write_long(self._waiting):
                return
            self._torn = not self._write_long(what)
            self._write_marks()
        elif what.kind is not ChunkType.MARKS:
            self._write_long(what)

    def _write_marks(self) -> None:
        """Also those that could not be written before."""
        while self._unwritten and self._write_long(self._unwritten[0]):
            del self._unwritten[0]
        while sum(len(marks.data) for marks in self._unwritten) > MOST_UNWRITTEN:
            del self._unwritten[-1]

    def _write_long(self, what: _Document) -> bool:
        position, lost = what.position, 0
        if what.kind is ChunkType.END:  # no records follow that could say what was lost before them
            lost = position - self._end
        before = self._bytes
        chunks = encode_long(
            what.kind, what.data, self._stream, position=position, time=what.time, lost=lost
        )
        if not all(map(self._append, chunks)):
            return False
        self._end += lost
        if what.kind is ChunkType.STATE:
            self._state_bytes, self._state_end = self._bytes - before, self._bytes
        return True

    def _append(self, chunk: bytes) -> bool:
        try:
            self._sink.append(chunk)
        except OSError as problem:
            self._note(problem.strerror or str(problem))
            self._torn, self._waiting = True, None
            return False
        self._problem, self._retry_after = None, RETRY_S
        self._bytes += len(chunk)
        return True

    def _note(self, problem: str) -> None:
        if self._problem is None or time.monotonic() >= self._retry_at:
            self._retry_at = time.monotonic() + self._retry_after
            self._retry_after = min(2 * self._retry_after, RETRY_MAX_S)
        self._problem = self._reason = problem
        self.interrupt(forgetful=True)
