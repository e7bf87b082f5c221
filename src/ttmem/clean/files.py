"""Files that may be changed or removed, and the folders that they are in, by descriptor.

Root may clean a folder where everybody may write. So a path is taken apart once: the folder is opened, the file is
opened beside that descriptor, never following a link and never waiting, and what was opened is judged. All that is
done afterwards is done to these two, whatever the path has come to mean meanwhile.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from ttmem.clean.lease import Lease, Use
from ttmem.clean.steps import Key
from ttmem.process_identity import user_name
from ttmem.sizes import human
from ttmem.sources.shared_memory import scan_holders

# A probe's region has 21 MiB, and 200 B more for each event that `ttmem run --events` adds. Anybody can make a file
# of a terabyte that takes no room at all; reading it would take an hour.
LARGEST = 1 << 30
_CHUNK = 1 << 16
_SAFE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FOLDER = os.O_DIRECTORY | os.O_CLOEXEC
_MOST_LINKS = 40  # as the kernel has it


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
        return _key(self.status)


@contextmanager
def opened(path: str, key: Key | None = None) -> Iterator[OpenFile]:
    """With `key` only that very file."""
    with opened_folder(os.path.dirname(path)) as folder:
        descriptor = _open(folder, os.path.basename(path))
        try:
            status = os.fstat(descriptor)
            if key is not None and key != _key(status):
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
        folder = os.open(path or ".", _FOLDER | os.O_PATH)
    except OSError as problem:
        raise Changed(f"cannot be opened: {problem.strerror}") from problem
    try:
        yield folder
    finally:
        os.close(folder)


def folder_key(folder: int) -> Key:
    """Of an open folder."""
    return _key(os.fstat(folder))


def _key(status: os.stat_result) -> Key:
    return status.st_dev, status.st_ino


def _open(folder: int, name: str) -> int:
    try:
        return os.open(name, os.O_RDWR | _SAFE, dir_fd=folder)
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


def check_size(size: int) -> None:
    """Before anything is read."""
    if size > LARGEST:
        raise Changed(f"has {human(size)}, more than any region has ({human(LARGEST)})")


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
    if _key(os.stat(aside, dir_fd=file.folder, follow_symlinks=False)) != file.key:
        return "was replaced meanwhile"
    if lease.somebody_waits():
        return "is being opened by somebody right now"
    if lease.use is not Use.NOBODY and scan_holders().mapped_by.get(file.key):
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


def create(
    folder: int, name: str, source: int, mode: int = 0o600, owner: tuple[int, int] | None = None
) -> None:
    """A new file with the bytes of `source`: it appears whole or not at all, and never over another."""
    aside = f".ttmem-clean-{secrets.token_hex(8)}"
    target = os.open(aside, os.O_RDWR | os.O_CREAT | os.O_EXCL | _SAFE, 0o600, dir_fd=folder)
    try:
        _copy(source, target)
        os.fsync(target)
        if owner is not None:
            os.fchown(target, *owner)
        os.fchmod(target, mode & 0o777)
        os.link(aside, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
        there = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if _key(there) != _key(os.fstat(target)):
            raise Changed("was exchanged in the moment of its return")
    finally:
        os.close(target)
        with suppress(OSError):
            os.unlink(aside, dir_fd=folder)


def _copy(source: int, target: int) -> None:
    """Holes included: a probe's region is mostly empty."""
    size = os.fstat(source).st_size
    check_size(size)
    os.ftruncate(target, size)
    at = 0
    while at < size:
        try:
            at = os.lseek(source, at, os.SEEK_DATA)
        except OSError as problem:
            if problem.errno == errno.ENXIO:
                break  # nothing but a hole is left
            raise
        chunk = os.pread(source, min(_CHUNK, size - at), at)
        if not chunk:
            break
        if chunk.count(0) != len(chunk):
            write_whole(target, chunk, at)
        at += len(chunk)
    if os.fstat(source).st_size != size:
        raise Changed("changed its size meanwhile")


def write_whole(descriptor: int, data: bytes, at: int) -> None:
    """A disk that becomes full takes a part of it first, and refuses the rest only when asked again."""
    while data:
        written = os.pwrite(descriptor, data, at)
        data, at = data[written:], at + written


@contextmanager
def opened_private(folder: int, name: str) -> Iterator[int]:
    """A file of our own, for reading. OSError: it cannot be ours."""
    descriptor = os.open(name, os.O_RDONLY | _SAFE, dir_fd=folder)
    try:
        status = os.fstat(descriptor)
        plain = stat.S_ISREG(status.st_mode) and status.st_nlink == 1
        if not plain or status.st_uid != os.geteuid():
            raise OSError(errno.EPERM, f"{name} is no file of {user_name(os.geteuid())} alone")
        if status.st_size > LARGEST:
            raise OSError(errno.EFBIG, f"{name} is larger than anything that is kept here")
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def private_folder(path: Path, make: bool = False) -> Iterator[int]:
    """A folder that only its user can write to. OSError: it is not.

    Every folder and link on the way belongs to the user or to the system, so nobody else decides where it leads.
    """
    left = [*reversed(path.absolute().parts[1:])]
    links = _MOST_LINKS
    folder = os.open("/", _FOLDER | os.O_PATH)
    try:
        while left:
            part = left.pop()
            try:
                status = os.stat(part, dir_fd=folder, follow_symlinks=False)
            except FileNotFoundError:
                if not make:
                    raise
                os.mkdir(part, 0o700, dir_fd=folder)
                status = os.stat(part, dir_fd=folder, follow_symlinks=False)
            _check_trusted(status, part)
            if stat.S_ISLNK(status.st_mode) and links:
                links -= 1
                target = Path(os.readlink(part, dir_fd=folder))
                left += [each for each in reversed(target.parts) if each != target.root]
                if not target.is_absolute():
                    continue
                inner = os.open("/", _FOLDER | os.O_PATH)
            else:
                inner = os.open(part, _FOLDER | os.O_PATH | os.O_NOFOLLOW, dir_fd=folder)
            os.close(folder)
            folder = inner
            _check_trusted(os.fstat(folder), part)
        _check_private(os.fstat(folder), path)
        inner = os.open(".", _FOLDER | os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = inner
        yield folder
    finally:
        os.close(folder)


def _check_trusted(status: os.stat_result, name: str) -> None:
    # In a user namespace the system's own folders belong to whoever / belongs to.
    if status.st_uid not in (os.geteuid(), 0, os.stat("/").st_uid):
        owner = user_name(status.st_uid)
        raise OSError(errno.EPERM, f"{name!r} on the way belongs to user {owner}")


def _check_private(status: os.stat_result, path: Path) -> None:
    me = os.geteuid()
    if status.st_uid != me:
        raise OSError(errno.EPERM, f"{path} belongs to user {user_name(status.st_uid)}")
    # Many systems give every user a group of the same name, and let it write what the user makes.
    others = stat.S_IWOTH | (0 if me else stat.S_IWGRP)
    if status.st_mode & others:
        raise OSError(errno.EPERM, f"other users can write to {path}")
