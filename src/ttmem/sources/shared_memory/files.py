"""Which files are regions, and how to read one that an enemy may have put there."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass

from ttmem.events import Remark
from ttmem.sources.closed_files import COUNTERS_CLOSED, closed_file
from ttmem.sources.shared_memory.layout import LAYOUTS, wrong_size
from ttmem.sources.shared_memory.steady_read import Copy, steady_read
from ttmem.text import printable

_NAME = re.compile(r"tt_device_(.*)_memory", re.DOTALL)
_LARGEST_ID = 2**64 - 1
# No symlinks; and a FIFO without a writer must not keep us waiting.
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class RegionFile:
    """A file with the name of a region; `number` is the chip's unique id."""

    folder: str
    name: str
    number: int

    @property
    def path(self) -> str:
        return f"{self.folder}/{self.name}"


@dataclass(frozen=True, slots=True)
class Contents:
    """`key` is (device, inode): what a process that maps the same file has in its maps."""

    copy: Copy
    key: tuple[int, int]
    uid: int  # who owns the file


def region_files(folder: str) -> Iterator[RegionFile | Remark]:
    """The regions of a folder in the order of their numbers, and what only looks like one."""
    try:
        names = os.listdir(folder)
    except OSError as error:
        yield Remark(
            "unreadable", f"{folder}: {_reason(error)}; no shared memory is read", path=folder
        )
        return
    found: list[RegionFile] = []
    for name in names:
        match = _NAME.fullmatch(name)
        if match is None:
            continue
        number = _number(match[1])
        if number is None:
            text = f"{_shown(name)}: its name holds no chip id; skipped"
            yield Remark("not_a_region", text, path=f"{folder}/{name}")
        else:
            found.append(RegionFile(folder, name, number))
    yield from sorted(found, key=lambda file: file.number)


def _number(digits: str) -> int | None:
    """As the runtime writes it: decimal, no leading zero, 64 bits."""
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 20):
        return None
    number = int(digits)
    return number if number <= _LARGEST_ID and str(number) == digits else None


def read_contents(file: RegionFile) -> Contents | Remark | None:
    """The bytes, or why there are none; None if the file is gone meanwhile."""
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
        return Contents(steady_read(descriptor, layout), key, status.st_uid)
    except OSError as error:
        return Remark("unreadable", f"{name}: {_reason(error)}; skipped", path=file.path)
    finally:
        os.close(descriptor)


def _refusal(file: RegionFile, error: OSError) -> Remark | None:
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
