"""The file of one region: read with `pread`, so that no truncation can hurt the reader, and trusted in nothing."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from struct import Struct

from ttmem.clock import now_ns
from ttmem.probe import layout
from ttmem.probe.layout import Section, State
from ttmem.sources.shm import REGION_NAME, probe_directory

U64 = Struct("<Q")
LARGEST_FILE = 1 << 40  # far more than any region takes, and an offset that every system call takes
LARGEST_PID = 1 << 22  # the kernel's own limit
PIECE = 1 << 12  # records that are read at a time
USUAL_SIZE = 24 << 20  # what the probe makes, unless it is told otherwise
BYTES_PER_ENTRY = 16  # of a region, at least, for each live entry that a reader keeps
MOST_ENTRIES = 1 << 21


class BadRegion(Exception):
    """This file is no region that can be read; the text says why."""


class ForeignRegion(BadRegion):
    """It names a process of another user than the one who owns the file."""


BEING_MADE_S = 5.0  # from the first byte of a region to its magic word, on a busy machine


class TooMuch(BadRegion):
    """It tells of more than a region of its size may."""


class NotReady(BadRegion):
    """Its process is making it at this moment, or was killed while it did."""


@dataclass(frozen=True, slots=True)
class Extent:
    """Where a section is."""

    offset: int
    count: int
    stride: int


@dataclass(frozen=True, slots=True)
class Header:
    """The head of a region, checked."""

    version: int
    state: State
    pid: int
    tracking: bool
    start_ticks: int
    created_ns: int
    ended_ns: int | None  # of a killed process as somebody saw it, if anybody did
    options: layout.Option
    launcher: int | None  # pid of the `ttmem run` that started the process
    sections: tuple[Extent, ...]


def _most_entries(status: os.stat_result) -> int:
    taken = max(status.st_blocks * 512, min(status.st_size, USUAL_SIZE))
    return min(taken // BYTES_PER_ENTRY, MOST_ENTRIES)


class RegionFile:
    """An open region; `uid` is who owns the file, `key` which file it is.

    `most_entries`: live things times chips. One entry of a mesh of 64 chips has 104 bytes here and 10 KiB in the
    accounts. Whoever has mapped a whole region gets one for each 16 bytes; a file with holes, for what it takes.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError as problem:
            raise BadRegion(f"{path}: {problem.strerror}") from problem
        try:
            status = os.fstat(self._file)
            self.uid, self.key = status.st_uid, (status.st_dev, status.st_ino)
            self.made_ns = status.st_ctime_ns
            self.most_entries = _most_entries(status)
            if not stat.S_ISREG(status.st_mode):
                raise BadRegion(f"{path} is not a plain file")
            if status.st_nlink > 1:  # 0: it was deleted at this moment
                raise BadRegion(f"{path} has {status.st_nlink} names (hard links)")
            if status.st_size == 0 and self._is_young():
                raise NotReady(f"{path} is not ready")
            self._extents = self.header().sections
        except BaseException:
            self.close()
            raise

    def _is_young(self) -> bool:
        """Its process may be about to write it."""
        return abs(now_ns() / 1e9 - os.fstat(self._file).st_mtime) < BEING_MADE_S

    def close(self) -> None:
        """Done with it."""
        os.close(self._file)

    def read(self, offset: int, size: int) -> bytes:
        """Exactly that many bytes; `BadRegion` if the file has become shorter."""
        parts = []
        while size:
            try:
                part = os.pread(self._file, min(size, 1 << 26), offset)
            except OSError as problem:
                raise BadRegion(f"{self.path}: {problem.strerror}") from problem
            if not part:
                raise BadRegion(f"{self.path} is shorter than its header says: somebody cut it")
            parts.append(part)
            offset += len(part)
            size -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def header(self) -> Header:
        """The header as it is now."""
        data = self.read(0, layout.HEADER_SIZE)
        magic, version, state, size, pid, tracking, ticks, created, ended, options, launcher = (
            layout.HEADER.unpack_from(data)
        )
        if magic == bytes(len(magic)) and self._is_young():
            raise NotReady(f"{self.path} is not ready")
        if magic != layout.MAGIC:
            raise BadRegion(f"{self.path} is no probe region")
        if version not in layout.STRIDES_OF:
            known = f"up to {layout.VERSION}"
            raise BadRegion(f"{self.path} has version {version}, this ttmem reads {known}")
        if state not in list(State) or state == State.MAKING:
            raise NotReady(f"{self.path} is not ready")
        if not 0 < pid <= LARGEST_PID:
            raise BadRegion(f"{self.path} names a process that cannot be")
        strides = layout.STRIDES_OF[version]
        return Header(
            version,
            State(state),
            pid,
            bool(tracking),
            ticks,
            created,
            ended or None,
            layout.Option(options & 3),
            launcher or None,
            tuple(self._extent(data, section, strides[section], size) for section in Section),
        )

    def _extent(self, data: bytes, section: Section, expected: int, file_size: int) -> Extent:
        offset, count, stride = layout.SECTION.unpack_from(
            data, layout.SECTIONS_AT + section * layout.SECTION.size
        )
        end = min(file_size, LARGEST_FILE)
        fits = offset >= layout.HEADER_SIZE and offset + count * stride <= end
        power = count & (count - 1) == 0 or section not in (Section.RING, Section.LIVE)
        if stride != expected or not 0 < count <= layout.LARGEST[section] or not (fits and power):
            raise BadRegion(f"{self.path}: the place of {section.name} is impossible")
        return Extent(offset, count, stride)

    def count(self, section: Section) -> int:
        """How many records a section has room for."""
        return self._extents[section].count

    def stride(self, section: Section) -> int:
        """Bytes of one record; older regions have shorter ones."""
        return self._extents[section].stride

    def records(self, section: Section, first: int, count: int) -> bytes:
        """Some records of a section, as bytes."""
        extent = self._extents[section]
        first = min(first, extent.count)
        count = min(count, extent.count - first)
        return self.read(extent.offset + first * extent.stride, count * extent.stride)

    def pieces(self, *sections: Section) -> Iterator[tuple[bytes, ...]]:
        """Sections whose records belong together, piece by piece; what takes no room in the first is left out."""
        count, at = min(map(self.count, sections)), 0
        while at < count:
            at += self.hole(sections[0], at)
            yield tuple(self.records(section, at, min(PIECE, count - at)) for section in sections)
            at += PIECE

    def hole(self, section: Section, first: int) -> int:
        """How many records from that one on were never written: anybody can make a file that takes no room."""
        extent = self._extents[section]
        at = extent.offset + first * extent.stride
        try:
            data = os.lseek(self._file, at, os.SEEK_DATA)
        except OSError as problem:
            cut = os.fstat(self._file).st_size <= at  # who reads there is told so
            if cut or problem.errno != errno.ENXIO:  # or a file system that does not tell
                return 0
            return extent.count - first
        return min((data - at) // extent.stride, extent.count - first)

    def word(self, offset: int) -> int:
        """One 64-bit counter of the header."""
        return int(U64.unpack(self.read(offset, 8))[0])

    def set_word(self, offset: int, word: int) -> None:
        """Writes one; of a file that is not ours nothing is changed."""
        with suppress(OSError):
            if self.uid == os.geteuid():
                self.write(offset, U64.pack(word))

    def write(self, offset: int, data: bytes) -> None:
        """Into the very file that is open, whatever has taken its name since."""
        file = os.open(f"/proc/self/fd/{self._file}", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.pwrite(file, data, offset)
        finally:
            os.close(file)


MOST_OF_A_USER = 256  # regions that are looked at; dead ones are removed at 64 MiB or after an hour
AT_ONCE = 4096  # names of one step: 5 ms


@dataclass(frozen=True, slots=True)
class RegionEntry:
    """A file that may be a region, and whose it is."""

    path: str
    pid: int
    start_ticks: int
    inode: int
    uid: int


@dataclass(slots=True)
class Listing:
    """What a walk through the folder has found; `left_out` counts, by user, what is beyond the limit."""

    found: dict[str, RegionEntry] = field(default_factory=dict)  # by path
    left_out: dict[int, int] = field(default_factory=dict)
    _of_user: dict[int, int] = field(default_factory=dict)

    def add(self, name: RegionEntry) -> None:
        """Who has too many gets no more."""
        count = self._of_user.get(name.uid, 0)
        if count < MOST_OF_A_USER:
            self._of_user[name.uid] = count + 1
            self.found[name.path] = name
        else:
            self.left_out[name.uid] = self.left_out.get(name.uid, 0) + 1


class RegionScan:
    """Walks through the folder again and again, the first time at once, later step by step."""

    def __init__(self, directory: str | None = None) -> None:
        self._directory = directory
        self._last: Listing | None = None  # of the last walk that came to its end
        self._walk: Iterator[RegionEntry | None] | None = None
        self._names = Listing()

    def look(self) -> Listing:
        """What the last walk has found, and what this one has met so far."""
        if self._walk is None:
            self._walk, self._names = _walk(self._directory), Listing()
        for done, name in enumerate(self._walk, 1):
            if name is not None:
                self._names.add(name)
            if done == AT_ONCE and self._last is not None:
                return Listing({**self._last.found, **self._names.found}, self._last.left_out)
        self._last, self._walk = self._names, None
        return self._last


def find_regions(directory: str | None = None) -> Iterator[RegionEntry]:
    """Regions by name, so many of each user; whether one can be read shows when it is opened."""
    found = RegionScan(directory).look().found
    for path in sorted(found):
        yield found[path]


def _walk(directory: str | None) -> Iterator[RegionEntry | None]:
    """Every file of the folder; None for one that is no region."""
    try:
        with os.scandir(directory or probe_directory()) as entries:
            for entry in entries:
                yield _region(entry)
    except OSError:
        return


def _region(entry: os.DirEntry[str]) -> RegionEntry | None:
    match = REGION_NAME.match(entry.name)
    if match is None or not entry.is_file(follow_symlinks=False):
        return None
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:
        return None
    return RegionEntry(entry.path, int(match[1]), int(match[2]), status.st_ino, status.st_uid)
