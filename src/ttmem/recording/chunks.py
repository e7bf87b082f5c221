"""Finds the chunks of a recording: an index of headers, with payloads read on demand.

Nothing intact is lost: after a damaged header the search continues at the next one, and a damaged payload affects only
its own chunk. Everything here may have been written by somebody else.
"""

from __future__ import annotations

import fcntl
import os
import stat
import sys
import tempfile
from array import array
from bisect import bisect_right
from typing import BinaryIO, NamedTuple, Protocol

from ttmem.errors import BadInput
from ttmem.recording.format import (
    CONTINUED,
    HEADER_SIZE,
    MAGIC,
    VERSION,
    BadChunk,
    ChunkType,
    Header,
    decode,
)
from ttmem.text import printable

# Entries of each column of the index in memory; a quiet host writes 2 to 5 chunks a second, for weeks.
KEPT = 1 << 20
MAX_DAMAGES = 1000
MAX_STATE = 1 << 29  # bytes of one chunk with its continuations
# Of documents, which take 20 times as much memory. The context of a server with 4,096 connections and 64 processes on
# 32 devices each has 5.3 MiB and 252,000 values; these are ten times as much.
MAX_DOCUMENT, MOST_VALUES = 64 << 20, 2_500_000
FIRST_WINDOW, LAST_WINDOW = 1 << 12, 1 << 20  # bytes at a time, when searching for the next header


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
    """A recording on disk; BadInput if it is not one."""

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
        """Whether somebody holds the writer's lock."""
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
    """An index of the chunks of a source, in order. Positions and times never decrease in it."""

    def __init__(self, source: Source) -> None:
        """BadInput if it does not start like a recording that this version can read."""
        self.source = source
        self.damages: list[Damage] = []
        self.tail: str | None = None  # why the file does not end with a complete chunk
        self.closed = False  # the last chunk says that the writer has finished
        self.unknown = 0  # chunks of types that this version does not know
        self.lost = 0
        self.stored: dict[int, int] = dict.fromkeys(ChunkType, 0)  # bytes by type, headers included
        self.end = 0  # the position after the last record
        self._seen = 0
        self._next = 0  # where the next header is expected
        self._stream: int | None = None
        self._continued: ChunkType | None = None  # the type of a chunk that the next one continues
        self._offset, self._position, self._time = _Column("Q"), _Column("Q"), _Column("Q")
        self._reached: dict[int, int] = dict.fromkeys(ChunkType, 0)  # the latest time, by type
        self._of_type = dict[int, _Column]((kind, _Column("I")) for kind in ChunkType)
        self._columns = (self._offset, self._position, self._time, *self._of_type.values())
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
            return  # damaged, like any other chunk may be
        if header.type == ChunkType.FILE and header.version > VERSION:
            raise BadInput(
                f"{name} has format version {header.version}, and this ttmem reads version {VERSION}: use a newer ttmem"
            )

    def refresh(self) -> bool:
        """Reads what was appended; returns whether there was anything."""
        before, size = self._seen, self.source.size()
        window = _Window(self.source)
        while self._next < size:
            try:
                header = self._checked(window.read(self._next))
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
                if self._seen % KEPT == 0:
                    for column in self._columns:
                        column.shrink()
        return self._seen > before

    def _header(self, offset: int) -> Header:
        return self._checked(self.source.read(offset, HEADER_SIZE))

    def _checked(self, data: bytes) -> Header:
        header = Header.unpack(data)
        if self._stream != header.stream:
            if self._stream is not None:
                raise BadChunk("it belongs to another recording")
            self._stream = header.stream
        return header

    def _skip_damage(self, size: int, why: str) -> bool:
        """Continues at the next intact header; False if there is none (yet)."""
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
        """Notes each damage once."""
        known = any(damage.offset == other.offset for other in self.damages)
        if not known and len(self.damages) < MAX_DAMAGES:
            self.damages.append(damage)

    def _add(self, offset: int, header: Header) -> None:
        """A slow recording has hundreds of thousands of chunks a day: this is what opening it takes."""
        number, position, first = header.type, header.position, header.first
        self._seen += 1
        self.closed = number == ChunkType.END
        part, self._continued = self._continued == number, None
        rows = self._of_type.get(number)
        if rows is None or header.version > VERSION:
            self.unknown += 1
            return
        size = HEADER_SIZE + header.stored
        if header.records and position < self.end:
            self.note(Damage(offset, size, "it repeats records of earlier chunks"))
            return
        if header.flags & CONTINUED:
            self._continued = ChunkType(number)
        self.lost += header.lost
        self.stored[number] += size
        if not part:
            rows.append(len(self._offset))
        self._offset.append(offset)
        reached = self._reached[number]
        self._time.append(first if first > reached else reached)
        if header.last > reached:
            self._reached[number] = header.last
        if header.records:
            self._position.append(position)
            self.end = header.end
            return
        self._position.append(position if position > self.end else self.end)
        if position > self.end and (
            # Nothing behind an END could say what was lost before it. A recording that begins in the midst of a
            # journal may be of a host where nothing has happened since.
            (number == ChunkType.END and header.lost)
            or (number == ChunkType.STATE and not self._of_type[ChunkType.RECORDS])
        ):
            self.end = position

    # -- reading -------------------------------------------------------------------------------------------------

    @property
    def span(self) -> tuple[int, int]:
        """The earliest and latest time in it; 0 if there is none."""
        starts = [self._time[rows[0]] for rows in self._of_type.values() if rows]
        return (min(filter(None, starts), default=0), max(self._reached.values(), default=0))

    def count(self, kind: ChunkType) -> int:
        return len(self._of_type[kind])

    def position(self, kind: ChunkType, number: int) -> int:
        """The journal position of the `number`th chunk of a type."""
        return self._position[self._of_type[kind][number]]

    def next_position(self, number: int) -> int:
        """Where the records after the `number`th chunk of records begin; the end if there are none."""
        last = number + 1 >= self.count(ChunkType.RECORDS)
        return self.end if last else self.position(ChunkType.RECORDS, number + 1)

    def time(self, kind: ChunkType, number: int) -> int:
        """The time of the `number`th chunk of a type; for RECORDS, the time reached before its first record."""
        return self._time[self._of_type[kind][number]]

    def until_position(self, kind: ChunkType, position: int) -> int:
        """How many chunks of a type start at or before a position."""
        return bisect_right(self._of_type[kind], position, key=self._position.__getitem__)

    def until_time(self, kind: ChunkType, time: int) -> int:
        """How many chunks of a type start at or before a time."""
        return bisect_right(self._of_type[kind], time, key=self._time.__getitem__)

    def payload(self, kind: ChunkType, number: int) -> bytes:
        """The payload of the `number`th chunk of a type, with its continuations; BadChunk if it is damaged, which is
        noted.
        """
        row, parts, total = self._of_type[kind][number], list[bytes](), 0
        most = MAX_STATE if kind is ChunkType.STATE else MAX_DOCUMENT
        while True:
            offset = self._offset[row]
            size = HEADER_SIZE
            try:
                header = self._header(offset)
                size += header.stored
                if header.type != kind:
                    raise BadChunk("its continuation is missing")
                total += header.raw
                if total > most:
                    raise BadChunk(f"it has more than {most:,} bytes, which no writer makes")
                stored = self.source.read(offset + HEADER_SIZE, header.stored)
                parts.append(decode(header, stored))
                if not header.continued:
                    return _plausible(kind, parts)
                row += 1
                if row >= len(self._offset):
                    raise BadChunk("its continuation is missing")
            except BadChunk as problem:
                self.note(Damage(offset, size, f"{kind.name} chunk: {problem}"))
                raise

    def close(self) -> None:
        for column in self._columns:
            column.close()
        self.source.close()


def _plausible(kind: ChunkType, parts: list[bytes]) -> bytes:
    """The payload; BadChunk if it is a document with more values than any writer makes."""
    whole = parts[0] if len(parts) == 1 else b"".join(parts)
    is_document = kind not in (ChunkType.RECORDS, ChunkType.STATE)
    if is_document and sum(map(whole.count, (b",", b"[", b"{"))) > MOST_VALUES:
        raise BadChunk(f"it has more than {MOST_VALUES:,} values, which no writer makes")
    return whole


class _Window:
    """Reads headers, and what follows them as well if that is more headers: a slow recording has short chunks."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._begin, self._data, self._size = 0, b"", FIRST_WINDOW

    def read(self, offset: int) -> bytes:
        at = offset - self._begin
        if at + HEADER_SIZE > len(self._data):
            near = at < len(self._data) + FIRST_WINDOW
            self._size = min(2 * self._size, LAST_WINDOW) if near else HEADER_SIZE
            self._begin, self._data, at = offset, self._source.read(offset, self._size), 0
        return self._data[at : at + HEADER_SIZE]


class _Column:
    """A column of the index. Older numbers go to a file without a name, so that memory stays bounded."""

    def __init__(self, code: str) -> None:
        self._recent = array(code)
        self._older: BinaryIO | None = None
        self._first = 0  # of the recent ones
        self.append = self._recent.append

    def __len__(self) -> int:
        return self._first + len(self._recent)

    def __getitem__(self, number: int) -> int:
        if number >= self._first:
            return self._recent[number - self._first]
        assert self._older is not None
        size = self._recent.itemsize
        data = os.pread(self._older.fileno(), size, number * size)
        return int.from_bytes(data, sys.byteorder)

    def shrink(self) -> None:
        if len(self._recent) < KEPT:
            return
        try:
            self._older = self._older or tempfile.TemporaryFile()  # noqa: SIM115 - closed with the index
            self._older.seek(self._first * self._recent.itemsize)
            self._recent.tofile(self._older)
            self._older.flush()
        except OSError:  # no space for it: they stay in memory
            return
        self._first += len(self._recent)
        del self._recent[:]

    def close(self) -> None:
        if self._older is not None:
            self._older.close()
