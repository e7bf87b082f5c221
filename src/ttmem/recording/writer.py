"""Writes chunks. Whoever feeds a writer is never kept waiting: a thread compresses and writes.

If the disk is slower than the events, or full, records are dropped and counted, and the next RECORDS chunk says how
many are missing before it. What follows such a gap can be replayed only from the next key frame, so `gap` asks for one.
"""

from __future__ import annotations

import fcntl
import os
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
    ChunkType,
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


class _Piece(NamedTuple):
    kind: ChunkType
    data: bytes
    position: int
    time: int


TimeOf = Callable[[bytes, int], int]


class Writer:
    """Feeds a sink from a thread. `reached(records, before)` is the time that was reached after some records."""

    def __init__(
        self,
        sink: Sink,
        reached: TimeOf,
        *,
        stream: int,
        started_ns: int,
        position: int = 0,
        budget: int = BUDGET,
    ) -> None:
        self.position = position  # of the next record
        self.gap = False  # records were dropped: nothing is of use before the next key frame
        self._sink = sink
        self._reached = reached
        self._stream = stream
        self._budget = budget
        self._queue: deque[_Piece] = deque()
        self._waiting = 0
        self._records = self._bytes = self._lost = self._state_bytes = self._state_end = 0
        self._problem: str | None = None
        self._retry_at, self._retry_after = 0.0, RETRY_S
        self._closing = False
        self._wake = threading.Condition()
        # What only the thread uses.
        self._open: list[bytes] = []
        self._open_bytes = self._open_at = 0
        self._time = max(0, started_ns)  # reached with the last record
        self._opened = 0.0
        self._end = position  # after the last record that was written
        self._thread = threading.Thread(target=self._run, name="ttmem-recording", daemon=True)
        self._thread.start()

    # -- called by whoever feeds it ------------------------------------------------------------------------------

    def records(self, data: bytes) -> None:
        """Journal records, in their order. What comes in one call stays in one chunk; at most PIECE of them."""
        count = len(data) // EVENT_SIZE
        with self._wake:
            if self.gap or self._waiting + len(data) > self._budget:
                self._drop(count)
            else:
                self._put(_Piece(ChunkType.RECORDS, data, self.position, 0))
            self.position += count

    def document(self, kind: ChunkType, document: object, now: int) -> None:
        """Anything that is written as JSON."""
        self.payload(kind, from_document(document), now)

    def payload(self, kind: ChunkType, data: bytes, now: int) -> None:
        """Anything but records."""
        with self._wake:
            if (
                self._waiting > 2 * self._budget
            ):  # documents are small: the sink does not move at all
                self.gap = True
                return
            self._put(_Piece(kind, data, self.position, max(0, now)))
            if kind is ChunkType.STATE:
                self.gap = False

    @property
    def ready(self) -> bool:
        """Whether a key frame is worth making: there is space in the queue, and the sink may accept it."""
        with self._wake:
            waited = self._problem is None or time.monotonic() >= self._retry_at
            return waited and self._waiting <= self._budget // 2

    def written(self) -> Written:
        with self._wake:
            return Written(
                self._records,
                self._bytes,
                self._lost,
                self._problem,
                self._state_bytes,
                self._bytes - self._state_end,
            )

    def close(self, seconds: float = 30.0) -> Written:
        """Writes what is waiting, and waits for that at most `seconds`. The thread closes the sink when it is done."""
        with self._wake:
            self._closing = True
            self._wake.notify()
        self._thread.join(seconds)
        return self.written()

    def _put(self, piece: _Piece) -> None:
        self._queue.append(piece)
        self._waiting += len(piece.data)
        if self._waiting >= CHUNK_BYTES:
            self._wake.notify()

    def _drop(self, count: int) -> None:
        self.gap = True
        self._lost += count

    # -- the thread ----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            with self._wake:
                if self._waiting < CHUNK_BYTES and not self._closing:
                    self._wake.wait(FLUSH_S)
                pieces, closing = list(self._queue), self._closing
                self._queue.clear()
            for piece in pieces:
                try:
                    self._take(piece)
                except (
                    Exception
                ) as problem:  # MemoryError, say: the recording has a gap, and goes on
                    self._open, self._open_bytes = [], 0
                    self._failed(str(problem) or type(problem).__name__)
                with self._wake:
                    self._waiting -= len(piece.data)
            if closing or (self._open and time.monotonic() - self._opened >= FLUSH_S):
                self._flush()
            if closing:
                with self._wake:
                    if not self._queue:
                        break
        self._sink.close()

    def _take(self, piece: _Piece) -> None:
        if piece.kind is not ChunkType.RECORDS:
            if piece.kind in (ChunkType.STATE, ChunkType.END):
                self._flush()
            if piece.kind is ChunkType.FILE:  # no file begins before its own time
                self._time = max(self._time, piece.time)
            self._write_long(piece)
            return
        end = self._open_at + self._open_bytes // EVENT_SIZE
        if self._open and piece.position != end:
            self._flush()
        if not self._open:
            self._open_at, self._opened = piece.position, time.monotonic()
        self._open.append(piece.data)
        self._open_bytes += len(piece.data)
        if self._open_bytes >= CHUNK_BYTES:
            self._flush()

    def _flush(self) -> None:
        if self._open:
            records = b"".join(self._open)
            self._open, self._open_bytes = [], 0
            self._write_records(records)

    def _write_records(self, records: bytes) -> None:
        first, self._time = self._time, self._reached(records, self._time)
        count = len(records) // EVENT_SIZE
        chunk = encode_records(
            records,
            self._stream,
            position=self._open_at,
            lost=self._open_at - self._end,
            first=first,
            last=self._time,
        )
        self._open_at += count
        written = self._append(chunk)
        if written:
            self._end = self._open_at
        with self._wake:
            if written:
                self._records += count
            else:
                self._drop(count)

    def _write_long(self, piece: _Piece) -> None:
        kind, data, position, now = piece
        for chunk in encode_long(kind, data, self._stream, position=position, time=now):
            if not self._append(chunk):
                return
            if kind is ChunkType.STATE:
                with self._wake:
                    self._state_bytes, self._state_end = len(chunk), self._bytes

    def _append(self, chunk: bytes) -> bool:
        try:
            self._sink.append(chunk)
        except OSError as problem:
            self._failed(problem.strerror or str(problem))
            return False
        with self._wake:
            self._problem, self._retry_after = None, RETRY_S
            self._bytes += len(chunk)
        return True

    def _failed(self, problem: str) -> None:
        with self._wake:
            if self._problem is None or time.monotonic() >= self._retry_at:
                self._retry_at = time.monotonic() + self._retry_after
                self._retry_after = min(2 * self._retry_after, RETRY_MAX_S)
            self._problem = problem
            self.gap = True
