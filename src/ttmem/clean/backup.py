"""Copies of what `ttmem clean` is about to change, so that it can be undone.

Each run has a directory `XDG_STATE_HOME/ttmem/clean/<time>` with the original files and `manifest.json`:

| key     | value                                                                                  |
|---------|----------------------------------------------------------------------------------------|
| schema  | `ttmem.clean/1`                                                                        |
| boot    | the kernel's boot id: `folder` and `key` (device, inode) mean nothing after a restart  |
| entries | kind `file`: path, copy, folder, mode, uid, gid; kind `slots`: path, copy, key, slots  |

The manifest is written before each change, so it may contain a change that was not made in the end, but never lacks
one that was. Only the user may be able to write there.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ttmem.clock import now_ns
from ttmem.errors import BadInput, TtmemError
from ttmem.procfs import user_name
from ttmem.sizes import human
from ttmem.sources.owned_files import FOLDER, SAFE, Changed, key_of, write_whole

SCHEMA = "ttmem.clean/1"
MANIFEST = "manifest.json"
_FRESH = f"{MANIFEST}.new"
_KEPT_S = 30 * 86_400
Entry = dict[str, Any]

# A probe region has 21 MiB, plus 200 B for each event added with `ttmem run --events`. Anybody can create a sparse file
# of a terabyte, which would take an hour to read.
LARGEST = 1 << 30
_CHUNK = 1 << 16
_MOST_LINKS = 40  # the kernel's own limit


@dataclass(slots=True)
class Backup:
    """The backup of one run. Its directory is created with the first entry."""

    folder: Path
    entries: list[Entry] = field(default_factory=list)
    boot: str | None = None
    _copies: int = 0

    @property
    def id(self) -> str:
        return self.folder.name

    def keep(self, entry: Entry, descriptor: int) -> None:
        """Copies the file before it is changed."""
        entry["copy"] = f"{self._copies}.bin"
        self._copies += 1
        self.entries.append(entry)
        copied = False
        try:
            with (
                private_folder(self.folder.parent, make=True),
                private_folder(self.folder, make=True) as folder,
            ):
                create(folder, entry["copy"], descriptor)
                copied = True
                self._write(folder)
        except (OSError, Changed) as problem:
            if copied:
                self.forget(entry)
            else:  # what is there may be the backup of another run that began in the same second
                self.entries.remove(entry)
                with suppress(OSError):
                    os.rmdir(self.folder)
            if isinstance(problem, Changed):
                raise
            raise TtmemError(
                f"cannot be backed up in {self.folder} ({problem.strerror}), so it was left as it "
                "is; XDG_STATE_HOME names another place"
            ) from problem

    def forget(self, entry: Entry) -> None:
        """For a change that was not made, or was undone. Failing to record that does no harm."""
        self.entries.remove(entry)
        with suppress(OSError), private_folder(self.folder) as folder:
            if self.entries:
                self._write(folder)
            with suppress(OSError, KeyError):
                os.unlink(os.path.basename(entry["copy"]), dir_fd=folder)
            if not self.entries:
                _empty(folder)
                os.rmdir(self.folder)

    @contextmanager
    def copy_of(self, entry: Entry) -> Iterator[int]:
        with (
            private_folder(self.folder) as folder,
            opened_private(folder, os.path.basename(entry["copy"])) as descriptor,
        ):
            yield descriptor

    def _write(self, folder: int) -> None:
        """Replaces the manifest atomically."""
        whole = {"schema": SCHEMA, "boot": self.boot, "entries": self.entries}
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            with open(os.open(_FRESH, flags, 0o600, dir_fd=folder), "w", encoding="utf-8") as file:
                json.dump(whole, file, indent=1)
                file.flush()
                os.fsync(file.fileno())
            os.replace(_FRESH, MANIFEST, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError:
            with suppress(OSError):
                os.unlink(_FRESH, dir_fd=folder)
            raise


class Backups:
    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or _state_folder() / "ttmem" / "clean"

    def begin(self) -> Backup:
        """Starts a new backup, and removes those older than a month."""
        name = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
        try:
            self._remove_old()
            taken = sum(id.startswith(name) for id in self.ids())
        except OSError:
            taken = 0  # keeping the first entry will show what is wrong
        suffix = f"-{taken + 1}" if taken else ""
        return Backup(self.folder / f"{name}{suffix}", boot=boot_id())

    def _remove_old(self) -> None:
        for old in self.ids():
            with suppress(OSError), private_folder(self.folder / old) as folder:
                written = os.stat(MANIFEST, dir_fd=folder, follow_symlinks=False).st_mtime
                if now_ns() / 1e9 - written > _KEPT_S:
                    _empty(folder)
                    os.rmdir(self.folder / old)

    def ids(self) -> list[str]:
        """Oldest first."""
        try:
            with private_folder(self.folder) as folder:
                return sorted(name for name in os.listdir(folder) if _has_manifest(folder, name))
        except FileNotFoundError:
            return []

    def open(self, id: str | None = None) -> Backup:
        try:
            known = self.ids()
        except OSError as problem:
            raise BadInput(
                f"{self.folder} cannot be used: {problem.strerror}; only the user who cleaned can undo it"
            ) from problem
        if id is None and not known:
            raise BadInput(f"nothing to undo: there is no backup in {self.folder}")
        if id is not None and id not in known:
            raise BadInput(f"there is no backup {id!r}; known are: {', '.join(known) or 'none'}")
        folder = self.folder / (id or known[-1])
        try:
            whole = json.loads(_read_manifest(folder))
            if whole["schema"] != SCHEMA:
                raise ValueError(f"schema {whole['schema']!r}")
            return Backup(folder, [dict(entry) for entry in whole["entries"]], whole["boot"])
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as problem:
            reason = problem.strerror if isinstance(problem, OSError) else problem
            raise BadInput(f"{folder / MANIFEST} cannot be used: {reason}") from problem


def _has_manifest(folder: int, name: str) -> bool:
    try:
        os.stat(f"{name}/{MANIFEST}", dir_fd=folder, follow_symlinks=False)
    except OSError:
        return False
    return True


def _read_manifest(path: Path) -> bytes:
    with (
        private_folder(path) as folder,
        opened_private(folder, MANIFEST) as descriptor,
        open(descriptor, "rb", closefd=False) as file,
    ):
        return file.read()


def _empty(folder: int) -> None:
    for name in os.listdir(folder):
        os.unlink(name, dir_fd=folder)


def boot_id() -> str | None:
    """Changes with each start of the machine."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return None


def _state_folder() -> Path:
    given = os.environ.get("XDG_STATE_HOME", "")
    return Path(given) if os.path.isabs(given) else Path.home() / ".local" / "state"


def check_size(size: int) -> None:
    if size > LARGEST:
        raise Changed(f"has {human(size)}, more than any region has ({human(LARGEST)})")


def create(
    folder: int, name: str, source: int, mode: int = 0o600, owner: tuple[int, int] | None = None
) -> None:
    """A new file with the contents of `source`. It appears atomically, and never replaces another file."""
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
            raise Changed("was replaced while it was being restored")
    finally:
        os.close(target)
        with suppress(OSError):
            os.unlink(aside, dir_fd=folder)


def _copy(source: int, target: int) -> None:
    """Preserves holes, because a probe region is mostly empty."""
    size = os.fstat(source).st_size
    check_size(size)
    os.ftruncate(target, size)
    at = 0
    while at < size:
        try:
            at = os.lseek(source, at, os.SEEK_DATA)
        except OSError as problem:
            if problem.errno == errno.ENXIO:
                break  # the rest is a hole
            raise
        chunk = os.pread(source, min(_CHUNK, size - at), at)
        if not chunk:
            break
        if chunk.count(0) != len(chunk):
            write_whole(target, chunk, at)
        at += len(chunk)
    if os.fstat(source).st_size != size:
        raise Changed("has changed size")


@contextmanager
def opened_private(folder: int, name: str) -> Iterator[int]:
    """A file owned by this user alone, for reading. OSError if it is not."""
    descriptor = os.open(name, os.O_RDONLY | SAFE, dir_fd=folder)
    try:
        status = os.fstat(descriptor)
        plain = stat.S_ISREG(status.st_mode) and status.st_nlink == 1
        if not plain or status.st_uid != os.geteuid():
            raise OSError(errno.EPERM, f"{name} is not a file of {user_name(os.geteuid())} alone")
        if status.st_size > LARGEST:
            raise OSError(errno.EFBIG, f"{name} is larger than anything that is kept here")
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def private_folder(path: Path, make: bool = False) -> Iterator[int]:
    """A directory that only this user can write to. OSError if it is not.

    Every directory and link in the path must belong to the user or to the system, so that nobody else controls where
    it leads.
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
    # In a user namespace, the system's directories belong to the owner of /.
    if status.st_uid not in (os.geteuid(), 0, os.stat("/").st_uid):
        owner = user_name(status.st_uid)
        raise OSError(errno.EPERM, f"{name!r} on this path belongs to user {owner}")


def _check_private(status: os.stat_result, path: Path) -> None:
    me = os.geteuid()
    if status.st_uid != me:
        raise OSError(errno.EPERM, f"{path} belongs to user {user_name(status.st_uid)}")
    # On many systems each user has a group of the same name, which may write what the user creates.
    others = stat.S_IWOTH | (0 if me else stat.S_IWGRP)
    if status.st_mode & others:
        raise OSError(errno.EPERM, f"other users can write to {path}")
