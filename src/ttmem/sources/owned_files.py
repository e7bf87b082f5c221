"""Files that may be changed or removed, and the folders that they are in, by descriptor.

Root may clean a folder where everybody may write. So a path is taken apart once: the folder is opened, the file is
opened beside that descriptor, never following a link and never waiting, and what was opened is judged. All that is
done afterwards is done to these two, whatever the path has come to mean meanwhile.
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
from dataclasses import dataclass
from enum import Enum

from ttmem.procfs import user_name
from ttmem.sources.counters.proc_scan import scan_proc

Key = tuple[int, int]  # (device, inode): the file that was judged, not another of the same name
SAFE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
FOLDER = os.O_DIRECTORY | os.O_CLOEXEC


class Changed(Exception):
    """Something is not as it must be, so nothing more was done; the text says what."""


class Foreign(Changed):
    """The file is another user's: it may be open to us, but it is not ours to clean."""


@dataclass(frozen=True, slots=True)
class OpenFile:
    """A plain file of one name, open for writing, and the folder that it was found in."""

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
    """With `key` only that very file."""
    with opened_folder(os.path.dirname(path)) as folder:
        descriptor = _open(folder, os.path.basename(path))
        try:
            status = os.fstat(descriptor)
            if key is not None and key != key_of(status):
                raise Changed("was replaced meanwhile")
            _check_plain(status)
            _check_ours(status)
            yield OpenFile(path, folder, descriptor, status)
        finally:
            os.close(descriptor)


@contextmanager
def opened_folder(path: str) -> Iterator[int]:
    """Good for names in it, not for listing it."""
    try:
        folder = os.open(path or ".", FOLDER | os.O_PATH)
    except OSError as problem:
        raise Changed(f"cannot be opened: {problem.strerror}") from problem
    try:
        yield folder
    finally:
        os.close(folder)


def folder_key(folder: int) -> Key:
    """Of an open folder."""
    return key_of(os.fstat(folder))


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
        raise Changed("is no plain file")
    if status.st_nlink > 1:
        raise Changed("has a second name (hard link), so it may be somebody else's")


def _check_ours(status: os.stat_result) -> None:
    if os.geteuid() not in (0, status.st_uid):
        raise Foreign(f"belongs to user {user_name(status.st_uid)}")


def remove(file: OpenFile, lease: Lease) -> None:
    """Takes the file away without taking it from under somebody.

    It moves aside under a name that nobody knows, is looked at once more, and only then removed. Who opened it a
    moment earlier shows: as one who waits for the lease, or in the maps. Then it moves back, and nobody has noticed
    anything. `Changed` if it was not removed.
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
        raise Changed("was exchanged in the moment of its removal, and is still there")


def _reason_to_stop(file: OpenFile, aside: str, lease: Lease) -> str | None:
    if key_of(os.stat(aside, dir_fd=file.folder, follow_symlinks=False)) != file.key:
        return "was replaced meanwhile"
    if lease.somebody_waits():
        return "is being opened by somebody right now"
    if lease.use is not Use.NOBODY and scan_proc().mapped_by.get(file.key):
        return "is mapped by a process now"
    return None


def _move_back(file: OpenFile, aside: str) -> None:
    """Never over a new file of that name, and whatever it is that was moved, it is kept."""
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
            f"was replaced meanwhile; what was moved aside cannot go back ({problem.strerror}) "
            f"and is called {aside} now"
        ) from problem


def remove_own(path: str, key: Key) -> bool:
    """That very file, if it is this user's and nobody uses it, in whatever container; False: it stays."""
    with suppress(Changed, OSError), opened(path, key) as file, leased(file.descriptor) as lease:
        if file.status.st_uid == os.geteuid() and lease.use is not Use.SOMEBODY:
            remove(file, lease)
            return True
    return False


# A monitor that reads the region right now is gone in a millisecond.
_LOOKS = 5
_PAUSE_S = 0.02


class Use(Enum):
    """Of a file, besides our own."""

    NOBODY = "nobody"
    SOMEBODY = "somebody"
    UNKNOWN = "unknown"  # this file system or kernel grants no leases


class Lease:
    """On an open file."""

    def __init__(self, descriptor: int, use: Use) -> None:
        self._descriptor = descriptor
        self.use = use

    def somebody_waits(self) -> bool:
        """Whether the file is being opened since the lease began."""
        if self.use is not Use.NOBODY:
            return False
        return fcntl.fcntl(self._descriptor, fcntl.F_GETLEASE) != fcntl.F_WRLCK


@contextmanager
def leased(descriptor: int) -> Iterator[Lease]:
    """The descriptor must be open for writing, and its file this user's own (or root's)."""
    use = _take(descriptor)
    try:
        yield Lease(descriptor, use)
    finally:
        if use is Use.NOBODY:
            with suppress(OSError):
                fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)


def _take(descriptor: int) -> Use:
    for look in range(_LOOKS):
        try:
            # The kernel's signal for a waiting opener would end this process; this one does not.
            fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
            fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        except OSError as problem:
            if problem.errno != errno.EAGAIN:
                return Use.UNKNOWN
        else:
            return Use.NOBODY
        if look < _LOOKS - 1:
            time.sleep(_PAUSE_S)
    return Use.SOMEBODY
