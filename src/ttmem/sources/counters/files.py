"""Counter files: finding them, and reading one that a hostile user may have put there.

Processes write to them word by word without any lock: the pid of a slot is set before its counters are zeroed. So each
part is read until two reads agree. A file is read, never mapped: if it shrinks, as runtimes make it do, a mapping kills
its reader with SIGBUS.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator
from functools import cache

from ttmem.events import COUNTERS_CLOSED, Remark
from ttmem.fast_dataclasses import dataclass
from ttmem.sources.counters.layout import LAYOUTS, PROCESSES, Layout, wrong_size
from ttmem.sources.shm import closed_file
from ttmem.text import printable

_NAME = re.compile(r"tt_device_(.*)_memory", re.DOTALL)
_LARGEST_ID = 2**64 - 1
# No symlinks; and a FIFO without a writer must not keep us waiting.
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class CounterFile:
    """A file named like one; `number` is the unique id of the chip."""

    folder: str
    name: str
    number: int

    @property
    def path(self) -> str:
        return f"{self.folder}/{self.name}"


@dataclass(frozen=True, slots=True)
class Contents:
    """`key` is (device, inode), as in the maps of processes."""

    copy: StableCopy
    key: tuple[int, int]
    uid: int  # owner of the file


def counter_files(folder: str) -> Iterator[CounterFile | Remark]:
    """In the order of their numbers; and a remark for each file that only looks like one."""
    try:
        names = os.listdir(folder)
    except OSError as error:
        yield Remark(
            "unreadable", f"{folder}: {_reason(error)}; no shared memory is read", path=folder
        )
        return
    found: list[CounterFile] = []
    for name in names:
        match = _NAME.fullmatch(name)
        if match is None:
            continue
        number = _number(match[1])
        if number is None:
            text = f"{_shown(name)}: its name holds no chip id; skipped"
            yield Remark("not_a_region", text, path=f"{folder}/{name}")
        else:
            found.append(CounterFile(folder, name, number))
    yield from sorted(found, key=lambda file: file.number)


def _number(digits: str) -> int | None:
    """As the runtime writes it: decimal, 64 bits, no leading zero."""
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 20):
        return None
    number = int(digits)
    return number if number <= _LARGEST_ID and str(number) == digits else None


def read_contents(file: CounterFile) -> Contents | Remark | None:
    """The contents, or why it was skipped; None if the file no longer exists."""
    name = file.name
    try:
        descriptor = os.open(file.path, _FLAGS)
    except OSError as error:
        return _refusal(file, error)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return Remark("not_a_region", f"{name}: not a plain file; skipped", path=file.path)
        if status.st_nlink > 1:  # 0: it was deleted at this moment
            text = f"{name}: has {status.st_nlink} names (hard links); skipped"
            return Remark("not_a_region", text, path=file.path)
        layout = LAYOUTS.get(status.st_size)
        if layout is None:
            kind = "unknown_layout" if status.st_size else "initialising"
            return Remark(kind, f"{name}: {wrong_size(status.st_size)}; skipped", path=file.path)
        key = (status.st_dev, status.st_ino)
        return Contents(stable_read(descriptor, layout), key, status.st_uid)
    except OSError as error:
        return Remark("unreadable", f"{name}: {_reason(error)}; skipped", path=file.path)
    finally:
        os.close(descriptor)


def _refusal(file: CounterFile, error: OSError) -> Remark | None:
    name = file.name
    if error.errno == errno.ENOENT:
        return None
    if error.errno == errno.ELOOP:
        return Remark("not_a_region", f"{name}: a symbolic link; skipped", path=file.path)
    if error.errno in (errno.EACCES, errno.EPERM):
        return closed_file(COUNTERS_CLOSED, file.path)
    return Remark("unreadable", f"{name}: {_reason(error)}; skipped", path=file.path)


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


def _shown(name: str) -> str:
    plain = printable(name)
    return plain if len(plain) <= 60 else f"{plain[:40]}...{plain[-12:]}"


READS = 8


@cache
def _parts(layout: Layout) -> tuple[slice, ...]:
    """What must be consistent in itself: head and chips, each slot, the rest."""
    slots = [layout.place(index) for index in range(PROCESSES)]
    return (
        slice(0, layout.processes_at),
        *(slice(at, at + layout.process.size) for at in slots),
        slice(layout.processes_end, layout.size),
    )


@dataclass(frozen=True, slots=True)
class StableCopy:
    """`still`: nothing changed while it was read, so sums can be compared."""

    data: bytes
    still: bool


def stable_read(descriptor: int, layout: Layout) -> StableCopy:
    """Gives up after a few reads; a part that keeps changing is taken as last read."""
    size, parts = layout.size, _parts(layout)
    before = os.pread(descriptor, size, 0)
    after = os.pread(descriptor, size, 0)
    if before == after:
        return StableCopy(after, True)
    agreed: dict[int, bytes] = {}
    for _ in range(READS - 2):
        if len(after) != size:
            break  # it has been cut
        for number, part in enumerate(parts):
            if number not in agreed and before[part] == after[part]:
                agreed[number] = after[part]
        if len(agreed) == len(parts):
            break
        before, after = after, os.pread(descriptor, size, 0)
        if before == after:
            return StableCopy(after, True)
    if len(after) != size:
        return StableCopy(after, False)
    joined = b"".join(agreed.get(number, after[part]) for number, part in enumerate(parts))
    return StableCopy(joined, False)
