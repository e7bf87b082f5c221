"""Region files: finding them, and reading one whose contents cannot be trusted.

A file is read with `pread`, never mapped, so that truncating it cannot kill the reader. Any user can create as many
files as there are inodes, and sparse ones of any size.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from struct import Struct

from ttmem.clock import now_ns
from ttmem.fast_dataclasses import dataclass
from ttmem.probe import layout
from ttmem.probe.layout import RegionState, Section
from ttmem.procfs import LARGEST_PID
from ttmem.sources.containers import Container
from ttmem.sources.listing import DirectoryScan, open_shared, shared_status
from ttmem.sources.shm import probe_directory, region_name

U64 = Struct("<Q")
LARGEST_FILE = 1 << 40  # far more than any region takes, and a valid offset for every system call
PIECE = 1 << 12  # records read at a time
USUAL_SIZE = 24 << 20  # of a whole region, by default
BYTES_PER_ENTRY = 16  # a reader keeps one live entry for so many bytes of a region
MOST_ENTRIES = 1 << 21
BEING_CREATED_S = 5.0  # from the first byte of a region to its magic number, on a busy machine
MOST_PER_USER = 256  # regions that are read; `cleanup` keeps fewer of dead processes


class BadRegion(Exception):
    """The file is not a readable region; the text says why."""


class ForeignRegion(BadRegion):
    """It names a process of another user than the one who owns the file."""


class TooMuch(BadRegion):
    """It contains more than a region of its size may."""


class NotReady(BadRegion):
    """Its process is creating it right now, or was killed while it did."""


@dataclass(frozen=True, slots=True)
class FileExtent:
    """Position and size of a section."""

    offset: int
    count: int
    stride: int


@dataclass(frozen=True, slots=True)
class RegionHeader:
    """Without the sections."""

    version: int
    state: RegionState
    pid: int
    tracking: bool
    start_ticks: int
    created_ns: int
    ended_ns: int | None  # of a killed process when somebody saw it die, if anybody did
    options: layout.Option
    launcher: int | None  # pid of the `ttmem run` that started the process


class RegionFile:
    """An open region; `uid` is its owner, `key` identifies the file.

    `most_entries` limits live entries times chips: an entry for a mesh of 64 chips takes 104 bytes here and 10 KiB in
    the ledger. A region gets one for each 16 bytes of its usual size, a larger one for each 16 bytes it really takes.
    """

    def __init__(self, path: str, container: Container | None = None) -> None:
        self.path = path
        self._inside = container is not None
        try:
            self._file = open_shared(path, container)
        except OSError as problem:
            raise BadRegion(f"{path}: {problem.strerror}") from problem
        try:
            status = os.fstat(self._file)
            self.uid, self.key = status.st_uid, (status.st_dev, status.st_ino)
            self.changed_ns = status.st_ctime_ns
            if not stat.S_ISREG(status.st_mode):
                raise BadRegion(f"{path} is not a plain file")
            if status.st_nlink > 1:  # 0: it was deleted at this moment
                raise BadRegion(f"{path} has {status.st_nlink} names (hard links)")
            if status.st_size == 0 and self._is_young():
                raise NotReady(f"{path} is not ready")
            data = self.read(0, layout.HEADER_SIZE)
            version = self._header(data).version
            self._extents = tuple(self._extent(data, section, version) for section in Section)
            compact = version == layout.COMPACT_VERSION
            size = USUAL_SIZE if compact else min(status.st_size, USUAL_SIZE)
            taken = max(status.st_blocks * 512, size)
            self.most_entries = min(taken // BYTES_PER_ENTRY, MOST_ENTRIES)
        except BaseException:
            self.close()
            raise

    def _is_young(self) -> bool:
        """Whether its process may be about to write it."""
        return abs(now_ns() / 1e9 - os.fstat(self._file).st_mtime) < BEING_CREATED_S

    def close(self) -> None:
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
                raise BadRegion(f"{self.path} is shorter than its header says: it was truncated")
            parts.append(part)
            offset += len(part)
            size -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def header(self) -> RegionHeader:
        """The current one."""
        return self._header(self.read(0, layout.HEADER.size))

    def _header(self, data: bytes) -> RegionHeader:
        magic, version, state, _, pid, tracking, ticks, created, ended, options, launcher = (
            layout.HEADER.unpack_from(data)
        )
        if magic == bytes(len(magic)) and self._is_young():
            raise NotReady(f"{self.path} is not ready")
        if magic != layout.MAGIC:
            raise BadRegion(f"{self.path} is not a probe region")
        if version not in layout.STRIDES_OF:
            known = f"up to {max(layout.STRIDES_OF)}"
            raise BadRegion(f"{self.path} has version {version}, this ttmem reads {known}")
        if state not in list(RegionState) or state == RegionState.MAKING:
            raise NotReady(f"{self.path} is not ready")
        if not 0 < pid <= LARGEST_PID:
            raise BadRegion(f"{self.path} names an impossible process")
        return RegionHeader(
            version,
            RegionState(state),
            pid,
            bool(tracking),
            ticks,
            created,
            ended or None,
            layout.Option(options & 3),
            launcher or None,
        )

    def _extent(self, data: bytes, section: Section, version: int) -> FileExtent:
        offset, count, stride = layout.SECTION.unpack_from(
            data, layout.SECTIONS_AT + section * layout.SECTION.size
        )
        end = min(U64.unpack_from(data, layout.SIZE_AT)[0], LARGEST_FILE)
        fits = offset >= layout.HEADER_SIZE and offset + count * stride <= end
        if version == layout.COMPACT_VERSION:
            sound = section is not Section.RING or not count & (count - 1)
        else:
            hashed = section in (Section.RING, Section.LIVE)
            sound = count > 0 and not (hashed and count & (count - 1))
        expected = layout.STRIDES_OF[version][section]
        if stride != expected or count > layout.LARGEST[section] or not (fits and sound):
            raise BadRegion(f"{self.path}: the position or size of {section.name} is impossible")
        return FileExtent(offset, count, stride)

    def count(self, section: Section) -> int:
        """How many records the section has space for."""
        return self._extents[section].count

    def stride(self, section: Section) -> int:
        """Bytes per record; older versions have shorter ones."""
        return self._extents[section].stride

    def records(self, section: Section, first: int, count: int) -> bytes:
        extent = self._extents[section]
        first = min(first, extent.count)
        count = min(count, extent.count - first)
        return self.read(extent.offset + first * extent.stride, count * extent.stride)

    def pieces(self, *sections: Section) -> Iterator[tuple[bytes, ...]]:
        """Sections with corresponding records, piece by piece. Holes in the first one are skipped."""
        count, at = min(map(self.count, sections)), 0
        while at < count:
            at += self.hole(sections[0], at)
            yield tuple(self.records(section, at, min(PIECE, count - at)) for section in sections)
            at += PIECE

    def hole(self, section: Section, first: int) -> int:
        """How many records from `first` on are in a hole of the file: anybody can create sparse files."""
        extent = self._extents[section]
        at = extent.offset + first * extent.stride
        try:
            data = os.lseek(self._file, at, os.SEEK_DATA)
        except OSError as problem:
            cut = os.fstat(self._file).st_size <= at  # reading there will raise
            if cut or problem.errno != errno.ENXIO:  # or the file system does not support it
                return 0
            return extent.count - first
        return min((data - at) // extent.stride, extent.count - first)

    def word(self, offset: int) -> int:
        """A 64-bit counter of the header."""
        return int(U64.unpack(self.read(offset, 8))[0])

    def set_word(self, offset: int, word: int) -> None:
        """In the file that is open, even if another one has its name now. Not in another user's, or in a container."""
        if self.uid != os.geteuid() or self._inside:
            return
        with suppress(OSError):
            file = os.open(f"/proc/self/fd/{self._file}", os.O_WRONLY | os.O_CLOEXEC)
            try:
                os.pwrite(file, U64.pack(word), offset)
            finally:
                os.close(file)


@dataclass(frozen=True, slots=True)
class RegionEntry:
    """A file that is named like a region."""

    path: str
    pid: int
    start_ticks: int
    inode: int
    uid: int
    container: Container | None = None
    fits: bool = True


class RegionScan(DirectoryScan[RegionEntry]):
    def __init__(self, directory: str | Container | None = None) -> None:
        super().__init__(directory or probe_directory(), _region, MOST_PER_USER)


def find_regions(directory: str | Container | None = None) -> Iterator[RegionEntry]:
    """By path, up to the limit per user. Opening one shows whether it can be read."""
    found = RegionScan(directory).look().found
    for path in sorted(found):
        yield found[path]


def _region(entry: os.DirEntry[str], container: Container | None) -> RegionEntry | None:
    named = region_name(entry.name)
    if named is None or not entry.is_file(follow_symlinks=False):
        return None
    path = entry.path if container is None else f"{container.path}/{entry.name}"
    try:
        status = shared_status(path, container)
    except OSError:
        return None
    return RegionEntry(path, *named, status.st_ino, status.st_uid, container)
