"""Writes chunks. Whoever feeds a writer is never kept waiting: a thread compresses and writes.

If the disk is slower than the events, or full, records are dropped and counted, and the next RECORDS chunk says how
many are missing before it. What follows such a gap can be replayed only from the next key frame, so `gap` asks for one.
"""

from __future__ import annotations

import fcntl
import os
import signal
import stat
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple, Protocol

from ttmem.errors import BadInput
from ttmem.events import EVENT_SIZE
from ttmem.recording.format import (
    CHUNK_RECORDS,
    Batch,
    ChunkType,
    Records,
    encode_long,
    encode_records,
    from_document,
)

BUDGET = 64 << 20  # bytes that may wait for the thread
FLUSH_S = 0.4  # records wait no longer for a chunk to fill
CHUNK_BYTES = CHUNK_RECORDS * EVENT_SIZE
PIECE = 4096  # records
RETRY_S = 1.0  # after a chunk that could not be written; doubled each time, up to RETRY_MAX_S
RETRY_MAX_S = 60.0


class Sink(Protocol):
    """Where chunks go."""

    def append(self, chunk: bytes) -> None:
        """All of it or nothing; OSError."""

    def close(self) -> None: ...


class FileSink:
    """A file of the user's own (mode 0600), with one writer at a time."""

    def __init__(self, path: str, *, overwrite: bool = False) -> None:
        """BadInput says why the file cannot be written."""
        self.path = path
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        try:
            self._file = os.open(path, flags | (0 if overwrite else os.O_EXCL), 0o600)
        except FileExistsError:
            raise BadInput(f"{path} exists; --overwrite replaces it") from None
        except OSError as problem:
            raise BadInput(f"{path} cannot be written: {problem.strerror}") from None
        try:
            self._take()
        except BaseException:
            os.close(self._file)
            raise
        self.size = 0

    def _take(self) -> None:
        found = os.fstat(self._file)
        if not stat.S_ISREG(found.st_mode):
            raise BadInput(f"{self.path} is not a regular file; a recording needs one")
        if found.st_uid != os.geteuid() or found.st_nlink != 1:
            raise BadInput(
                f"{self.path} belongs to somebody else, or has other names; not replaced"
            )
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise BadInput(f"{self.path} is being written by another process") from None
        os.fchmod(self._file, 0o600)
        os.ftruncate(self._file, 0)

    def append(self, chunk: bytes) -> None:
        at = self.size
        view = memoryview(chunk)
        try:
            while view:
                written = os.pwrite(self._file, view, at)
                at, view = at + written, view[written:]
        except OSError:
            with suppress(OSError):  # a torn chunk is skipped by readers, too
                os.ftruncate(self._file, self.size)
            raise
        self.size = at

    def close(self) -> None:
        with suppress(OSError):
            os.close(self._file)


class Written(NamedTuple):
    """How far a recording has come."""

    records: int
    bytes: int
    lost: int  # records
    problem: str | None  # why the last chunk could not be written
    state_bytes: int  # of the last key frame
    bytes_since: int  # the last key frame


class _Document(NamedTuple):
    kind: ChunkType
    data: bytes
    time: int


class _Item(NamedTuple):
    """What waits for the thread."""

    position: int
    size: int
    what: Records | Batch | _Document


class Writer:
    """Feeds a sink from a thread. One other thread feeds the writer.

    `batch` takes no lock: whatever counts is written by one of the two threads only.
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
        self.position = position  # of the next record
        self.gap = False  # records were dropped: nothing is of use before the next key frame
        self._sink = sink
        self._stream = stream
        self._budget = budget
        self._queue: deque[_Item] = deque()
        self._given = 0  # bytes that were put into the queue
        self._dropped = 0  # records that were not
        self._closing = False
        self._wake = threading.Condition()
        # What the thread alone changes.
        self._taken = 0  # bytes that no longer wait
        self._idle = False
        self._records = self._bytes = self._failed = self._state_bytes = self._state_end = 0
        self._problem: str | None = None
        self._retry_at, self._retry_after = 0.0, RETRY_S
        self._torn = False  # a chunk could not be written since the last key frame
        self._waiting: tuple[_Document, int] | None = None  # the latest context since then
        self._open: list[Records | Batch] = []
        self._open_bytes = self._open_at = 0
        self._time = max(0, started_ns)  # reached with the last record
        self._opened = 0.0
        self._end = position  # after the last record that was written
        self._thread = threading.Thread(target=self._run, name="ttmem-recording", daemon=True)
        # Signals are for the thread that waits for them: `ttmem run` passes them on.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        self._thread.start()
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    # -- called by whoever feeds it ------------------------------------------------------------------------------

    def records(self, control: bytes) -> None:
        """A control record, with what belongs to it."""
        self._put((control, 0, len(control)), len(control))

    def batch(self, batch: Batch) -> None:
        """Events of one process, which nobody may change; at most PIECE - 1."""
        self._put(batch, EVENT_SIZE + batch[6] - batch[5])

    def _put(self, records: Records | Batch, size: int) -> None:
        """What comes in one call stays in one chunk."""
        waiting = self._given - self._taken + size
        if self.gap or waiting > self._budget:
            self.gap = True
            self._dropped += size // EVENT_SIZE
        else:
            self._given += size
            self._queue.append(_Item(self.position, size, records))
            if self._idle and waiting >= CHUNK_BYTES:
                self._call()
        self.position += size // EVENT_SIZE

    def document(self, kind: ChunkType, document: object, now: int) -> None:
        """Anything that is written as JSON."""
        self.payload(kind, from_document(document), now)

    def payload(self, kind: ChunkType, data: bytes, now: int) -> None:
        """Anything but records."""
        if self._given - self._taken > 2 * self._budget:
            self.gap = True  # documents are small: the sink does not move at all
            return
        size = len(data)
        self._given += size
        self._queue.append(_Item(self.position, size, _Document(kind, data, max(0, now))))
        if kind is ChunkType.STATE:
            self.gap = False

    @property
    def ready(self) -> bool:
        """Whether a key frame is worth making: there is space in the queue, and the sink may accept it."""
        if self._given - self._taken > self._budget // 2:
            return False
        return self._problem is None or time.monotonic() >= self._retry_at

    def written(self) -> Written:
        return Written(
            self._records,
            self._bytes,
            self._dropped + self._failed,
            self._problem,
            self._state_bytes,
            self._bytes - self._state_end,
        )

    def close(self, seconds: float = 30.0) -> Written:
        """Writes what is waiting, and waits for that at most `seconds`. The thread closes the sink when it is done."""
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
            while self._queue:
                item = self._queue.popleft()
                self._guarded(self._take, item)
                self._taken += item.size
            if closing or (self._open and time.monotonic() - self._opened >= FLUSH_S):
                self._guarded(self._flush)
        self._sink.close()

    def _wait(self) -> None:
        with self._wake:
            self._idle = True
            if self._given - self._taken < CHUNK_BYTES and not self._closing:
                self._wake.wait(FLUSH_S)
            self._idle = False

    def _guarded(self, act: Callable[..., None], *given: object) -> None:
        try:
            act(*given)
        except Exception as problem:  # MemoryError, say: the recording has a gap, and goes on
            self._open, self._open_bytes = [], 0
            self._note(str(problem) or type(problem).__name__)

    def _take(self, item: _Item) -> None:
        position, size, what = item
        if isinstance(what, _Document):
            if what.kind in (ChunkType.STATE, ChunkType.END):
                self._flush()
            if what.kind is ChunkType.FILE:  # no file begins before its own time
                self._time = max(self._time, what.time)
            self._write_document(what, position)
            return
        if self._torn:
            self._failed += size // EVENT_SIZE
            return
        if self._open and position != self._open_at + self._open_bytes // EVENT_SIZE:
            self._flush()
        if not self._open:
            self._open_at, self._opened = position, time.monotonic()
        self._open.append(what)
        self._open_bytes += size
        if self._open_bytes >= CHUNK_BYTES:
            self._flush()

    def _flush(self) -> None:
        if not self._open:
            return
        pieces, count = self._open, self._open_bytes // EVENT_SIZE
        self._open, self._open_bytes = [], 0
        self._failed += count  # unless it goes well
        chunk, self._time = encode_records(
            pieces,
            self._stream,
            position=self._open_at,
            lost=self._open_at - self._end,
            first=self._time,
        )
        self._open_at += count
        if self._append(chunk):
            self._end = self._open_at
            self._records += count
            self._failed -= count

    def _write_document(self, what: _Document, position: int) -> None:
        """After a chunk that could not be written, contexts and records wait for a key frame: they build on it."""
        if self._torn and what.kind is ChunkType.CONTEXT:
            self._waiting = what, position  # the one before a key frame is written in full
            return
        if self._torn and what.kind is ChunkType.STATE:
            if self._waiting is not None and not self._write_long(*self._waiting):
                return
            self._torn = not self._write_long(what, position)
            return
        self._write_long(what, position)

    def _write_long(self, what: _Document, position: int) -> bool:
        chunks = encode_long(what.kind, what.data, self._stream, position=position, time=what.time)
        for chunk in chunks:
            if not self._append(chunk):
                return False
            if what.kind is ChunkType.STATE:
                self._state_bytes, self._state_end = len(chunk), self._bytes
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
        self._problem = problem
        self.gap = True
