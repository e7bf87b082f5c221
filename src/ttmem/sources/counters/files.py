"""Counter files: finding them, and reading one that a hostile user may have put there.

Processes write to them word by word without any lock: the pid of a slot is set before its counters are zeroed. So each
part is read until two reads agree. A file is read, never mapped: if it shrinks, as runtimes make it do, a mapping kills
its reader with SIGBUS.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Iterator
from functools import cache

from ttmem.events import COUNTERS_CLOSED, Remark
from ttmem.fast_dataclasses import dataclass
from ttmem.sources.containers import Container
from ttmem.sources.counters.layout import (
    LAYOUTS,
    PROCESSES,
    CounterRegion,
    Layout,
    UnknownLayout,
    Unsettled,
    decode,
    wrong_size,
)
from ttmem.sources.listing import DirectoryScan, open_shared
from ttmem.sources.shm import closed_file
from ttmem.text import printable

_BEFORE, _AFTER = "tt_device_", "_memory"
_LARGEST_ID = 2**64 - 1
NO_NUMBER = -1
UNKNOWN_USER = -1
MOST_PER_USER = 128  # a host has 32 chips at most


@dataclass(frozen=True, slots=True)
class CounterFile:
    """A file named like one; `number` is the unique id of the chip, or NO_NUMBER."""

    path: str
    number: int
    uid: int  # who is charged for it: its owner, or that of the container
    container: Container | None = None
    fits: bool = True  # its name and size do, as far as known

    @property
    def name(self) -> str:
        return os.path.basename(self.path)


@dataclass(frozen=True, slots=True)
class Contents:
    """Of a file that could be read. `key` is (device, inode), as in the maps of processes."""

    file: CounterFile
    key: tuple[int, int]
    uid: int  # owner of the file
    data: bytes
    still: bool  # nothing changed while it was read, so sums can be compared
    region: CounterRegion


def counter_scan(directory: str | Container) -> DirectoryScan[CounterFile]:
    return DirectoryScan(directory, _counter_file, MOST_PER_USER)


def counter_files(folder: str) -> Iterator[CounterFile | Remark]:
    """All of them, however many there are, in the order of their numbers; or why there are none."""
    scan = DirectoryScan(folder, _counter_file, sys.maxsize)
    yield from sorted(scan.look().found.values(), key=lambda file: file.number)
    if scan.problem is not None:
        yield no_directory(folder, scan.problem)


def no_directory(folder: str, problem: OSError) -> Remark:
    text = f"{folder}: {_reason(problem)}; no shared memory is read"
    return Remark("unreadable", text, path=folder)


def _counter_file(entry: os.DirEntry[str], container: Container | None) -> CounterFile | None:
    name = entry.name
    digits = name.removeprefix(_BEFORE).removesuffix(_AFTER)
    if len(name) - len(digits) != len(_BEFORE) + len(_AFTER):
        return None
    if container is not None:
        return CounterFile(f"{container.path}/{name}", _number(digits), container.owner, container)
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:
        return None
    # Who made a further name of a file is not known, so it is not charged to its owner.
    uid = status.st_uid if status.st_nlink == 1 else UNKNOWN_USER
    number = _number(digits)
    fits = number != NO_NUMBER and (not status.st_size or status.st_size in LAYOUTS)
    return CounterFile(entry.path, number, uid, None, fits)


def _number(digits: str) -> int:
    """As the runtime writes it: decimal, 64 bits, no leading zero."""
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 20):
        return NO_NUMBER
    number = int(digits)
    return number if number <= _LARGEST_ID and str(number) == digits else NO_NUMBER


def read_counter_file(file: CounterFile) -> Contents | Remark | None:
    """The contents, or why it was skipped; None if the file no longer exists."""
    name = file.name
    if file.number == NO_NUMBER:
        return _skipped(file, "not_a_region", "its name holds no chip id", _shown(name))
    try:
        descriptor = open_shared(file.path, file.container)
    except OSError as error:
        return _refusal(file, error)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return _skipped(file, "not_a_region", "not a plain file")
        if status.st_nlink > 1:  # 0: it was deleted at this moment
            return _skipped(file, "not_a_region", f"has {status.st_nlink} names (hard links)")
        layout = LAYOUTS.get(status.st_size)
        if layout is None:
            kind = "unknown_layout" if status.st_size else "initialising"
            return _skipped(file, kind, wrong_size(status.st_size))
        data, still = _stable_read(descriptor, layout)
        key = (status.st_dev, status.st_ino)
        return Contents(file, key, status.st_uid, data, still, decode(data, file.number))
    except OSError as error:
        return _skipped(file, "unreadable", _reason(error))
    except Unsettled:
        text = f"{name}: still being initialised by its first process"
        return Remark("initialising", text, path=file.path)
    except UnknownLayout as reason:
        return _skipped(file, "unknown_layout", str(reason))
    finally:
        os.close(descriptor)


def _skipped(file: CounterFile, kind: str, why: str, name: str | None = None) -> Remark:
    return Remark(kind, f"{name or file.name}: {why}; skipped", path=file.path)


def _refusal(file: CounterFile, error: OSError) -> Remark | None:
    if error.errno == errno.ENOENT:
        return None
    if error.errno == errno.ELOOP:
        return _skipped(file, "not_a_region", "a symbolic link")
    if error.errno == errno.EXDEV:
        return _skipped(file, "not_a_region", _reason(error))
    if error.errno in (errno.EACCES, errno.EPERM) and file.container is None:
        return closed_file(COUNTERS_CLOSED, file.path)
    return _skipped(file, "unreadable", _reason(error))


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


def _shown(name: str) -> str:
    plain = printable(name)
    return plain if len(plain) <= 60 else f"{plain[:40]}...{plain[-12:]}"


_READS = 8


@cache
def _parts(layout: Layout) -> tuple[slice, ...]:
    """What must be consistent in itself: head and chips, each slot, the rest."""
    slots = [layout.place(index) for index in range(PROCESSES)]
    return (
        slice(0, layout.processes_at),
        *(slice(at, at + layout.process.size) for at in slots),
        slice(layout.processes_end, layout.size),
    )


def _stable_read(descriptor: int, layout: Layout) -> tuple[bytes, bool]:
    """(data, whether nothing changed meanwhile). A part that keeps changing is taken as last read after a few reads."""
    size, parts = layout.size, _parts(layout)
    before = os.pread(descriptor, size, 0)
    after = os.pread(descriptor, size, 0)
    if before == after:
        return after, True
    agreed: dict[int, bytes] = {}
    for _ in range(_READS - 2):
        if len(after) != size:
            break  # it has been cut
        for number, part in enumerate(parts):
            if number not in agreed and before[part] == after[part]:
                agreed[number] = after[part]
        if len(agreed) == len(parts):
            break
        before, after = after, os.pread(descriptor, size, 0)
        if before == after:
            return after, True
    if len(after) != size:
        return after, False
    return b"".join(agreed.get(number, after[part]) for number, part in enumerate(parts)), False
