"""Finds the chunks of a recording: an index over headers, which payloads are read from on demand.

Nothing that is intact is lost: after a damaged header the search goes on for the next one, and a damaged payload
costs its own chunk only. Everything here may have been written by somebody else.
"""

from __future__ import annotations

import fcntl
import os
import stat
from array import array
from bisect import bisect_right
from typing import NamedTuple, Protocol

from ttmem.errors import BadInput
from ttmem.recording.format import HEADER_SIZE, MAGIC, VERSION, BadChunk, ChunkType, Header, decode
from ttmem.text import printable

MAX_CHUNKS = 1 << 21  # of an index, which takes 32 bytes for each: files of 200 GB
MAX_DAMAGES = 1000
MAX_PAYLOAD = 1 << 29  # of one chunk with its continuations
FIRST_WINDOW, LAST_WINDOW = 1 << 12, 1 << 20  # bytes, in the search for the next header


class Source(Protocol):
    """Bytes that may still grow."""

    @property
    def name(self) -> str:
        """For messages."""

    def size(self) -> int: ...

    def read(self, offset: int, size: int) -> bytes:
        """As many bytes as there are, at most `size`."""

    def close(self) -> None: ...


class FileSource:
    """A recording on disk; BadInput says why it is none."""

    def __init__(self, path: str) -> None:
        self.name = printable(path)
        try:
            self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as problem:
            raise BadInput(f"{self.name} cannot be read: {problem.strerror}") from None
        try:
            self._check(os.fstat(self._file))
        except BaseException:
            os.close(self._file)
            raise

    def _check(self, found: os.stat_result) -> None:
        if stat.S_ISDIR(found.st_mode):
            raise BadInput(f"{self.name} is a directory, not a recording")
        if not stat.S_ISREG(found.st_mode):
            raise BadInput(
                f"{self.name} is a pipe or a device; a recording is read back and forth, so copy it to a file first"
            )

    def size(self) -> int:
        return os.fstat(self._file).st_size

    def read(self, offset: int, size: int) -> bytes:
        try:
            return os.pread(self._file, size, offset)
        except OSError as problem:
            raise BadInput(f"{self.name} cannot be read: {problem.strerror}") from None

    def has_writer(self) -> bool:
        """Whether somebody has the lock of a writer."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:  # a file system without locks
            return False
        fcntl.flock(self._file, fcntl.LOCK_UN)
        return False

    def close(self) -> None:
        os.close(self._file)


class Damage(NamedTuple):
    """A part of a file that cannot be used."""

    offset: int
    bytes: int
    text: str

    def __str__(self) -> str:
        return f"{self.bytes:,} bytes at {self.offset:,}: {self.text}"


class Chunks:
    """An index over the chunks of a source, in their order. Positions and times never decrease in it."""

    def __init__(self, source: Source) -> None:
        """BadInput if it does not begin like a recording that this version can read."""
        self.source = source
        self.damages: list[Damage] = []
        self.tail: str | None = None  # why the file ends with something that is no whole chunk
        self.closed = False  # the last chunk says that the writer has ended
        self.unknown = 0  # chunks of types that this version does not know
        self.lost = 0
        self.stored = dict.fromkeys(ChunkType, 0)  # bytes by type, headers included
        self.end = 0  # the position after the last record
        self._seen = 0
        self._next = 0  # where the next header is expected
        self._stream: int | None = None
        self._continued: ChunkType | None = None  # the type of a chunk that the next one continues
        self._offset, self._position, self._time = array("Q"), array("Q"), array("Q")
        self._reached: dict[int, int] = {}  # the latest time, by type
        self._of_type: dict[int, array[int]] = {kind: array("Q") for kind in ChunkType}
        self._check_start()
        self.refresh()

    def _check_start(self) -> None:
        name = self.source.name
        start = self.source.read(0, HEADER_SIZE)
        if not start:
            raise BadInput(f"{name} is empty: nothing has been recorded in it yet")
        if start[: len(MAGIC)] != MAGIC[: len(start)]:
            raise BadInput(f"{name} is not a recording of ttmem")
        try:
            header = Header.unpack(start)
        except BadChunk:
            return  # damaged, as any other chunk may be
        if header.type == ChunkType.FILE and header.version > VERSION:
            raise BadInput(
                f"{name} has format version {header.version}, and this ttmem reads version {VERSION}: use a newer ttmem"
            )

    def refresh(self) -> bool:
        """Takes what was appended since; whether there is anything new."""
        before, size = self._seen, self.source.size()
        while self._next < size and self._seen < MAX_CHUNKS:
            try:
                header = self._header(self._next)
            except BadChunk as problem:
                if not self._skip_damage(size, str(problem)):
                    break
                continue
            end = self._next + HEADER_SIZE + header.stored
            if end > size and not self._skip_damage(size, "it is cut off"):
                self.tail = f"the last chunk lacks {end - size:,} of its {header.stored:,} bytes"
                break
            if end <= size:
                self.tail = None
                self._add(self._next, header)
                self._next = end
        if self._seen >= MAX_CHUNKS:
            self.tail = f"only the first {MAX_CHUNKS:,} chunks are read"
        return self._seen > before

    def _header(self, offset: int) -> Header:
        header = Header.unpack(self.source.read(offset, HEADER_SIZE))
        if self._stream not in (None, header.stream):
            raise BadChunk("it belongs to another recording")
        self._stream = header.stream
        return header

    def _skip_damage(self, size: int, why: str) -> bool:
        """Goes on at the next header that is intact; False if there is none (yet)."""
        at, window = self._next + 1, FIRST_WINDOW
        while at < size:
            data = self.source.read(at, window + HEADER_SIZE)
            found = data.find(MAGIC)
            while 0 <= found < window:
                try:
                    self._header(at + found)
                except BadChunk:
                    found = data.find(MAGIC, found + 1)
                    continue
                self.note(Damage(self._next, at + found - self._next, why))
                self._next = at + found
                return True
            at, window = at + window, min(2 * window, LAST_WINDOW)
        self.tail = f"the last {size - self._next:,} bytes are no whole chunk"
        return False

    def note(self, damage: Damage) -> None:
        """Each place once."""
        known = any(damage.offset == other.offset for other in self.damages)
        if not known and len(self.damages) < MAX_DAMAGES:
            self.damages.append(damage)

    def _add(self, offset: int, header: Header) -> None:
        self._seen += 1
        self.closed = header.type == ChunkType.END
        part, self._continued = self._continued == header.type, None
        if header.type not in self._of_type or header.version > VERSION:
            self.unknown += 1
            return
        kind, size, records = (
            ChunkType(header.type),
            HEADER_SIZE + header.stored,
            header.records > 0,
        )
        if records and header.position < self.end:
            self.note(Damage(offset, size, "it repeats records of earlier chunks"))
            return
        if header.continued:
            self._continued = kind
        self.lost += header.lost
        self.stored[kind] += size
        if not part:
            self._of_type[kind].append(len(self._offset))
        self._offset.append(offset)
        self._position.append(header.position if records else max(header.position, self.end))
        self._time.append(max(header.first, self._reached.get(kind, 0)))
        self._reached[kind] = max(header.last, self._reached.get(kind, 0))
        if records:
            self.end = header.end

    # -- reading -------------------------------------------------------------------------------------------------

    @property
    def span(self) -> tuple[int, int]:
        """The earliest and latest time in it; 0 where there is none."""
        starts = [self._time[rows[0]] for rows in self._of_type.values() if rows]
        return (min(filter(None, starts), default=0), max(self._reached.values(), default=0))

    def count(self, kind: ChunkType) -> int:
        return len(self._of_type[kind])

    def position(self, kind: ChunkType, number: int) -> int:
        """Where the `number`th chunk of a type stands in the journal."""
        return self._position[self._of_type[kind][number]]

    def time(self, kind: ChunkType, number: int) -> int:
        """Of the `number`th chunk of a type; of RECORDS, the time that was reached before its first record."""
        return self._time[self._of_type[kind][number]]

    def until_position(self, kind: ChunkType, position: int) -> int:
        """How many chunks of a type begin at or before a position."""
        return bisect_right(_Column(self._of_type[kind], self._position), position)

    def until_time(self, kind: ChunkType, time: int) -> int:
        """How many chunks of a type begin at or before a time."""
        return bisect_right(_Column(self._of_type[kind], self._time), time)

    def payload(self, kind: ChunkType, number: int) -> bytes:
        """Of the `number`th chunk of a type, with its continuations; BadChunk, and a damage is noted."""
        row, parts, total = self._of_type[kind][number], [], 0
        while True:
            offset = self._offset[row]
            try:
                header = self._header(offset)
                if header.type != kind:
                    raise BadChunk("its continuation is missing")
                stored = self.source.read(offset + HEADER_SIZE, header.stored)
                parts.append(decode(header, stored))
            except BadChunk as problem:
                self.note(Damage(offset, HEADER_SIZE, f"{kind.name} chunk: {problem}"))
                raise
            total += len(parts[-1])
            if not header.continued:
                return parts[0] if len(parts) == 1 else b"".join(parts)
            row += 1
            if row >= len(self._offset) or total > MAX_PAYLOAD:
                raise BadChunk("its continuation is missing")

    def close(self) -> None:
        self.source.close()


class _Column:
    """What `bisect` searches: one column of the index, for the chunks of one type."""

    def __init__(self, rows: array[int], column: array[int]) -> None:
        self._rows, self._column = rows, column

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, number: int) -> int:
        return self._column[self._rows[number]]
