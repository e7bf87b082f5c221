"""Copies of files that were changed or removed, in a folder that is its user's alone, by descriptor."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ttmem.process_identity import user_name
from ttmem.sizes import human
from ttmem.sources.owned_files import FOLDER, SAFE, Changed, key_of

# A probe's region has 21 MiB, and 200 B more for each event that `ttmem run --events` adds. Anybody can make a file
# of a terabyte that takes no room at all; reading it would take an hour.
LARGEST = 1 << 30
_CHUNK = 1 << 16
_MOST_LINKS = 40  # as the kernel has it


def check_size(size: int) -> None:
    """Before anything is read."""
    if size > LARGEST:
        raise Changed(f"has {human(size)}, more than any region has ({human(LARGEST)})")


def create(
    folder: int, name: str, source: int, mode: int = 0o600, owner: tuple[int, int] | None = None
) -> None:
    """A new file with the bytes of `source`: it appears whole or not at all, and never over another."""
    aside = f".ttmem-clean-{secrets.token_hex(8)}"
    target = os.open(aside, os.O_RDWR | os.O_CREAT | os.O_EXCL | SAFE, 0o600, dir_fd=folder)
    try:
        _copy(source, target)
        os.fsync(target)
        if owner is not None:
            os.fchown(target, *owner)
        os.fchmod(target, mode & 0o777)
        os.link(aside, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
        there = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if key_of(there) != key_of(os.fstat(target)):
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
    descriptor = os.open(name, os.O_RDONLY | SAFE, dir_fd=folder)
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
    folder = os.open("/", FOLDER | os.O_PATH)
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
                inner = os.open("/", FOLDER | os.O_PATH)
            else:
                inner = os.open(part, FOLDER | os.O_PATH | os.O_NOFOLLOW, dir_fd=folder)
            os.close(folder)
            folder = inner
            _check_trusted(os.fstat(folder), part)
        _check_private(os.fstat(folder), path)
        inner = os.open(".", FOLDER | os.O_RDONLY, dir_fd=folder)
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
