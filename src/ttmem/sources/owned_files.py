"""Changing and removing files in a directory where others may write, as root or not.

A path is resolved once: the directory is opened, then the file relative to it, without following links or waiting, and
what was opened is checked. Everything else happens to these two descriptors, whatever the path means by then.

Whether a file is in use, the kernel knows: it grants a write lease only if nobody else on the machine has the file open
or mapped, whatever the container or user. While the lease is held, whoever opens the file waits, and the holder can see
that. /proc/*/maps is no substitute, since it shows only the processes that this user may inspect.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import signal
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import Enum

from ttmem.fast_dataclasses import dataclass
from ttmem.procfs import user_name
from ttmem.sources.counters.proc_scan import scan_proc

Key = tuple[int, int]  # (device, inode) of the file that was checked
SAFE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
FOLDER = os.O_DIRECTORY | os.O_CLOEXEC

# A monitor that is just reading the file is done within a millisecond.
_ATTEMPTS = 5
_PAUSE_S = 0.02


class Changed(Exception):
    """Something is not as it must be, so nothing more was done; the text says what."""


class Foreign(Changed):
    """The file is another user's, so it is not ours to clean even if we may write to it."""


@dataclass(frozen=True, slots=True)
class OpenFile:
    """A plain file with one name, open for writing, and its directory."""

    path: str
    folder: int
    descriptor: int
    status: os.stat_result

    @property
    def name(self) -> str:
        return os.path.basename(self.path)

    @property
    def key(self) -> Key:
        return key_of(self.status)


@contextmanager
def opened(path: str, key: Key | None = None) -> Iterator[OpenFile]:
    """`key`: only if it is still that file."""
    with opened_folder(os.path.dirname(path)) as folder:
        descriptor = _open(folder, os.path.basename(path))
        try:
            status = os.fstat(descriptor)
            if key is not None and key != key_of(status):
                raise Changed("has been replaced")
            _check_plain(status)
            _check_ours(status)
            yield OpenFile(path, folder, descriptor, status)
        finally:
            os.close(descriptor)


@contextmanager
def opened_folder(path: str) -> Iterator[int]:
    """A descriptor for names in the directory, not for listing it."""
    try:
        folder = os.open(path or ".", FOLDER | os.O_PATH)
    except OSError as problem:
        raise Changed(f"cannot be opened: {problem.strerror}") from problem
    try:
        yield folder
    finally:
        os.close(folder)


def key_of(status: os.stat_result) -> Key:
    return status.st_dev, status.st_ino


def _open(folder: int, name: str) -> int:
    try:
        return os.open(name, os.O_RDWR | SAFE, dir_fd=folder)
    except OSError as problem:
        if problem.errno == errno.EACCES:
            with suppress(OSError):
                _check_ours(os.stat(name, dir_fd=folder, follow_symlinks=False))
        if problem.errno == errno.ELOOP:
            raise Changed("is a symbolic link") from problem
        raise Changed(f"cannot be opened: {problem.strerror}") from problem


def _check_plain(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise Changed("is not a plain file")
    if status.st_nlink > 1:
        raise Changed("has a second name (hard link), so it may be somebody else's")


def _check_ours(status: os.stat_result) -> None:
    if os.geteuid() not in (0, status.st_uid):
        raise Foreign(f"belongs to user {user_name(status.st_uid)}")


class Use(Enum):
    """Who uses a file besides this process."""

    NOBODY = "nobody"
    SOMEBODY = "somebody"
    UNKNOWN = "unknown"  # this file system or kernel grants no leases


@dataclass(frozen=True, slots=True)
class Lease:
    """On an open file."""

    descriptor: int
    use: Use

    def somebody_waits(self) -> bool:
        """Whether somebody has tried to open the file since the lease was granted."""
        if self.use is not Use.NOBODY:
            return False
        return fcntl.fcntl(self.descriptor, fcntl.F_GETLEASE) != fcntl.F_WRLCK


@contextmanager
def leased(descriptor: int) -> Iterator[Lease]:
    """The descriptor must be open for writing, and the file this user's own (or this user root)."""
    use = _take_lease(descriptor)
    try:
        yield Lease(descriptor, use)
    finally:
        if use is Use.NOBODY:
            with suppress(OSError):
                fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)


def _take_lease(descriptor: int) -> Use:
    for attempt in range(_ATTEMPTS):
        try:
            # The default signal for a waiting process would end this one.
            fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
            fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        except OSError as problem:
            if problem.errno != errno.EAGAIN:
                return Use.UNKNOWN
        else:
            return Use.NOBODY
        if attempt < _ATTEMPTS - 1:
            time.sleep(_PAUSE_S)
    return Use.SOMEBODY


def remove(file: OpenFile, lease: Lease) -> None:
    """Removes the file unless somebody uses it; `Changed` if it was not removed.

    It is renamed to a name that nobody knows, checked again, and only then removed. A process that just opened it
    shows up: waiting for the lease, or in the maps. Then it is renamed back, and that process has noticed nothing.
    """
    aside = f".ttmem-clean-{secrets.token_hex(8)}"
    os.rename(file.name, aside, src_dir_fd=file.folder, dst_dir_fd=file.folder)
    try:
        reason = _reason_to_stop(file, aside, lease)
        if reason is not None:
            raise Changed(reason)
        os.unlink(aside, dir_fd=file.folder)
    except BaseException:
        _move_back(file, aside)
        raise
    if os.fstat(file.descriptor).st_nlink:
        raise Changed("was replaced while it was being removed, and is still there")


def _reason_to_stop(file: OpenFile, aside: str, lease: Lease) -> str | None:
    if key_of(os.stat(aside, dir_fd=file.folder, follow_symlinks=False)) != file.key:
        return "has been replaced"
    if lease.somebody_waits():
        return "is being opened by another process right now"
    if lease.use is not Use.NOBODY and scan_proc().mapped_by.get(file.key):
        return "is mapped by a process now"
    return None


def _move_back(file: OpenFile, aside: str) -> None:
    """Never over a new file of that name. Whatever it was that was renamed, it is kept."""
    try:
        os.link(
            aside,
            file.name,
            src_dir_fd=file.folder,
            dst_dir_fd=file.folder,
            follow_symlinks=False,
        )
        os.unlink(aside, dir_fd=file.folder)
    except OSError as problem:
        raise Changed(
            f"has been replaced; what was moved aside cannot go back ({problem.strerror}) "
            f"and is called {aside} now"
        ) from problem


def remove_own(path: str, key: Key) -> bool:
    """Removes that very file if it is this user's and nobody uses it; False if it stays."""
    with suppress(Changed, OSError), opened(path, key) as file, leased(file.descriptor) as lease:
        if file.status.st_uid == os.geteuid() and lease.use is not Use.SOMEBODY:
            remove(file, lease)
            return True
    return False


def write_whole(descriptor: int, data: bytes, at: int) -> None:
    """Repeats partial writes: a full disk accepts a part first and fails only on the next attempt."""
    while data:
        written = os.pwrite(descriptor, data, at)
        data, at = data[written:], at + written
