"""The listening end of the allocation socket: one server per path, nobody else's file touched."""

from __future__ import annotations

import errno
import fcntl
import grp
import os
import socket
import stat
from contextlib import suppress

from ttmem.errors import BadInput, TtmemError

BACKLOG = 1024


class AlreadyServed(TtmemError):
    """Another server has this path."""

    exit_code = 5


class Listener:
    """A bound Unix socket. Closing it removes the files that it made, and only those."""

    def __init__(self, path: str, group: str | None = None) -> None:
        self.path = path
        self._group = group
        self._lock = _lock(path)
        try:
            _clear_stale(path)
            self.socket = self._bind(path, group)
        except BaseException:
            self._unlock()
            raise
        self._inode = os.stat(path).st_ino

    def _bind(self, path: str, group: str | None) -> socket.socket:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        old_mask = os.umask(0o177)  # never open to others, not even for a moment
        try:
            listener.bind(path)
        except OSError as problem:
            listener.close()
            raise BadInput(
                f"cannot listen at {path}: {problem.strerror}; choose another --socket"
            ) from problem
        finally:
            os.umask(old_mask)
        if group is not None:
            _share(path, group)
        listener.listen(BACKLOG)
        return listener

    def missing(self) -> bool:
        """True if somebody removed the socket file: nobody can connect any more."""
        return not os.path.lexists(self.path)

    def restore(self) -> None:
        """Listens at the same path again; connections that are open stay so."""
        self.socket.close()
        self.socket = self._bind(self.path, self._group)
        self._inode = os.stat(self.path).st_ino

    def close(self) -> None:
        """Stops listening."""
        self.socket.close()
        with suppress(OSError):
            if os.stat(self.path).st_ino == self._inode:
                os.unlink(self.path)
        self._unlock()

    def _unlock(self) -> None:
        _unlock(self.path, self._lock)


def remove_stale(path: str) -> None:
    """Removes a socket file that nobody listens at, under the lock that servers take."""
    lock = _lock(path)
    try:
        _clear_stale(path)
    finally:
        _unlock(path, lock)


def _unlock(path: str, lock: int) -> None:
    with suppress(OSError):
        os.unlink(_lock_path(path))
    os.close(lock)


def _lock_path(path: str) -> str:
    return path + ".lock"


def _lock(path: str) -> int:
    """A lock that dies with its process: it tells a living server from a stale socket file."""
    while True:
        try:
            lock = os.open(
                _lock_path(path), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
            )
        except OSError as problem:
            raise BadInput(
                f"cannot lock {_lock_path(path)}: {problem.strerror}; choose another --socket"
            ) from problem
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as problem:
            owner = os.read(lock, 32).decode("ascii", "replace").strip()
            os.close(lock)
            raise AlreadyServed(
                f"another ttmem server (pid {owner or 'unknown'}) serves {path};"
                " stop it, or give this one its own --socket"
            ) from problem
        with suppress(OSError):
            if os.stat(_lock_path(path)).st_ino == os.fstat(lock).st_ino:
                os.ftruncate(lock, 0)
                os.write(lock, f"{os.getpid()}\n".encode())
                return lock
        os.close(lock)  # its owner removed the file between open and lock: try the new one


def _clear_stale(path: str) -> None:
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise BadInput(f"{path} is there and is no socket; remove it, or choose another --socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(2)
        try:
            probe.connect(path)
        except OSError as problem:
            if problem.errno not in (errno.ECONNREFUSED, errno.ENOENT):
                raise BadInput(
                    f"cannot tell who serves {path}: {problem}; choose another --socket"
                ) from problem
        else:
            raise AlreadyServed(
                f"another program serves {path}; stop it, or give this one its own --socket"
            )
    with suppress(FileNotFoundError):
        os.unlink(path)


def _share(path: str, group: str) -> None:
    try:
        os.chown(path, -1, grp.getgrnam(group).gr_gid)
        os.chmod(path, 0o660)
    except KeyError:
        os.unlink(path)
        raise BadInput(f"there is no group {group!r} on this machine") from None
    except PermissionError:
        os.unlink(path)
        raise BadInput(
            f"you are no member of group {group!r}, so you cannot share the socket with it"
        ) from None
