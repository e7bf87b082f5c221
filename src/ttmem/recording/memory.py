"""The last part of a recording, in memory: a sink, and a source that reads it.

It consists of files like those of a flight recorder: each starts with a key frame. The oldest is dropped when there are
too many bytes, or when all of it is too old.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple

from ttmem.clock import now_ns
from ttmem.ledger import Books
from ttmem.recording.format import ChunkType
from ttmem.recording.recorder import Recorder, described
from ttmem.recording.times import SECOND_NS

MOST_BYTES = 256 << 20
MOST_NS = 3600 * SECOND_NS
PARTS = 8  # a file ends after this share of all bytes or of all time


class _File(NamedTuple):
    begun_ns: int
    offset: int
    chunk: int  # number of its first chunk


class ChunkMemory:
    """Offsets and chunk numbers count from the very first chunk; `begin` is the first that is still there.

    One thread appends; any thread reads.
    """

    def __init__(self, most: int = MOST_BYTES, age_ns: int = MOST_NS) -> None:
        self._most, self._age_ns = most, age_ns
        self._files: deque[_File] = deque()
        self._chunks: list[bytes] = []
        self._starts: list[int] = []  # offsets of the chunks
        self._dropped = 0  # chunks
        self._end = 0
        self._lock = threading.Lock()

    @property
    def begin(self) -> int:
        """The offset of the oldest file."""
        files = self._files
        return files[0].offset if files else 0

    @property
    def end(self) -> int:
        return self._end

    @property
    def forgotten(self) -> bool:
        """Whether anything was dropped."""
        return self._dropped > 0

    def append(self, chunk: bytes) -> None:
        """See `Sink`."""
        with self._lock:
            if chunk[4] == ChunkType.FILE:
                now = now_ns()
                self._files.append(_File(now, self._end, self._dropped + len(self._chunks)))
                self._forget(now)
            self._chunks.append(chunk)
            self._starts.append(self._end)
            self._end += len(chunk)
            self._forget(0)

    def _forget(self, now: int) -> None:
        """The last file stays. A file is as old as the start of the one after it."""
        while len(self._files) > 1 and (
            self._end - self.begin > self._most or self._files[1].begun_ns < now - self._age_ns
        ):
            self._files.popleft()
            gone = self._files[0].chunk - self._dropped
            del self._chunks[:gone], self._starts[:gone]
            self._dropped += gone

    def is_full(self, state_bytes: int, now: int) -> bool:
        """Whether the current file should end, unless most of it is key frame."""
        if not self._files:
            return False
        size, begun = self._end - self._files[-1].offset, self._files[-1].begun_ns
        large = size >= self._most // PARTS and size >= 4 * state_bytes
        return large or now >= begun + self._age_ns // PARTS

    def read(self, offset: int, size: int) -> bytes:
        """As many bytes as there are; none that were dropped."""
        parts = []
        with self._lock:
            number = bisect_right(self._starts, offset) - 1
            while 0 <= number < len(self._chunks) and size > 0:
                within = offset - self._starts[number]
                part = self._chunks[number][within : within + size]
                parts.append(part)
                offset, size, number = offset + len(part), size - len(part), number + 1
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def close(self) -> None:
        """What was recorded stays readable."""


class MemorySource:
    """What a memory contains from now on, as a source for `Recording`.

    When its beginning is dropped, create another.
    """

    def __init__(self, memory: ChunkMemory, name: str = "the past in memory") -> None:
        self.name = name
        self._memory = memory
        self._begin = memory.begin

    @property
    def current(self) -> bool:
        """Whether its beginning is still there."""
        return self._memory.begin == self._begin

    def size(self) -> int:
        return self._memory.end - self._begin

    def read(self, offset: int, size: int) -> bytes:
        return self._memory.read(self._begin + offset, size)

    def close(self) -> None:
        pass


class MemoryRecorder(Recorder):
    """Records books into a memory."""

    def __init__(
        self, books: Books, memory: ChunkMemory, host: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(books, memory, described(), host=host)
        self._memory = memory

    def tick(self, now: int) -> None:
        super().tick(now)
        if self.ready and self._memory.is_full(self.written().state_bytes, now):
            self.begin_file(now)
