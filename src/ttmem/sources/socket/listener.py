"""The listening end of the allocation socket: one server per path, and no file of another user is touched.

Root may serve everybody at a path in a directory where everybody may write. So a path is resolved once: the directory
is opened, and the rest is relative to that descriptor, without following links. The socket is created in a private
directory, gets its mode and group there, and is then linked into place.
"""

from __future__ import annotations

import errno
import fcntl
import grp
import os
import pwd
import secrets
import socket
import stat
from contextlib import suppress
from enum import Enum

from ttmem.errors import BadInput, TtmemError
from ttmem.fast_dataclasses import dataclass
from ttmem.procfs import peer_credentials, process_facts, user_name

BACKLOG = 1024
_PATIENCE_S = 2.0


class AlreadyServed(TtmemError):
    """Another server has this path."""

    exit_code = 5


class Listener:
    """A bound Unix socket. Closing it removes the files it created, and only those."""

    def __init__(self, path: str, group: str | None = None) -> None:
        self.path = path
        self._gid = None if group is None else _group(group)
        self._folder = _folder(path)
        self._name = os.path.basename(path)
        try:
            self._lock = _lock(self._folder, path)
            try:
                _clear_stale(self._folder, path)
                self.socket = self._bind()
            except BaseException:
                self._unlock()
                raise
        except BaseException:
            os.close(self._folder)
            raise

    def _bind(self) -> socket.socket:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            self._inode = self._make(listener)
            listener.listen(BACKLOG)
        except OSError as problem:
            listener.close()
            raise BadInput(
                f"cannot listen at {self.path}: {problem.strerror}; choose another --socket"
            ) from problem
        except BaseException:
            listener.close()
            raise
        return listener

    def _make(self, listener: socket.socket) -> int:
        """Puts the socket file into place and returns its inode."""
        private = f".ttmem-{secrets.token_hex(8)}"
        os.mkdir(private, 0o700, dir_fd=self._folder)
        inside = os.open(
            private, os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._folder
        )
        try:
            old_mask = os.umask(0o177)  # not even for a moment open to others
            try:
                listener.bind(f"/proc/self/fd/{inside}/s")  # short enough, however long the path is
            finally:
                os.umask(old_mask)
            if self._gid is not None:
                self._share(inside, self._gid)
            os.link("s", self._name, src_dir_fd=inside, dst_dir_fd=self._folder)
            return os.stat("s", dir_fd=inside, follow_symlinks=False).st_ino
        finally:
            with suppress(OSError):
                os.unlink("s", dir_fd=inside)
            os.close(inside)
            with suppress(OSError):
                os.rmdir(private, dir_fd=self._folder)

    def _share(self, inside: int, gid: int) -> None:
        try:
            os.chown("s", -1, gid, dir_fd=inside, follow_symlinks=False)
            os.chmod("s", 0o660, dir_fd=inside)  # nobody else can put a link there
        except PermissionError:
            name = grp.getgrgid(gid).gr_name
            raise BadInput(
                f"you are not a member of group {name!r}, so you cannot share the socket with it"
            ) from None

    def missing(self) -> bool:
        """Whether somebody removed the socket file or its directory, so that nobody can connect."""
        try:
            return os.stat(self.path, follow_symlinks=False).st_ino != self._inode
        except OSError:
            return True

    def restore(self) -> None:
        """Listens at the same path again, keeping open connections; BadInput if that is not possible yet."""
        folder = _folder(self.path)
        os.close(self._folder)
        self._folder = folder
        with suppress(FileNotFoundError):
            os.stat(self._name, dir_fd=self._folder, follow_symlinks=False)
            raise BadInput(f"{self.path} was replaced by another file")
        fresh = self._bind()
        self.socket.close()
        self.socket = fresh

    def keep_lock(self) -> None:
        """Takes the lock again if its file was removed, as cleaners of /tmp do; TtmemError if that is not possible."""
        if not _is_at(self._lock, self._folder, _lock_name(self.path)):
            fresh = _lock(self._folder, self.path)
            os.close(self._lock)
            self._lock = fresh

    def close(self) -> None:
        self.socket.close()
        with suppress(OSError):
            found = os.stat(self._name, dir_fd=self._folder, follow_symlinks=False)
            if found.st_ino == self._inode:
                os.unlink(self._name, dir_fd=self._folder)
        self._unlock()
        os.close(self._folder)

    def _unlock(self) -> None:
        _unlock(self._folder, self.path, self._lock)


def remove_stale(path: str) -> None:
    """Removes a socket file that nobody listens on, under the lock that servers take."""
    folder = _folder(path)
    try:
        owner = os.stat(os.path.basename(path), dir_fd=folder, follow_symlinks=False).st_uid
        lock = _lock(folder, path, owner)
        try:
            _clear_stale(folder, path)
        finally:
            _unlock(folder, path, lock)
    except FileNotFoundError:
        pass
    finally:
        os.close(folder)


def _group(name: str) -> int:
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        raise BadInput(f"there is no group {name!r} on this machine") from None


def _folder(path: str) -> int:
    """Opens the directory of a socket, if only its owner and this user can replace files in it."""
    name = os.path.dirname(path) or "."
    try:
        folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as problem:
        raise BadInput(
            f"cannot listen at {path}: {name}: {problem.strerror}; choose another --socket"
        ) from problem
    status = os.fstat(folder)
    others = status.st_mode & (stat.S_IWOTH | stat.S_IWGRP)
    if others == stat.S_IWGRP and _is_private_group(status.st_gid):
        others = 0
    if others and not status.st_mode & stat.S_ISVTX:
        os.close(folder)
        raise BadInput(
            f"other users can replace files in {name}, including the socket; choose another --socket, "
            f"or have root make the directory sticky, like /tmp: chmod +t {name}"
        )
    return folder


def _is_private_group(gid: int) -> bool:
    """Many systems give every user a group of the same name, with write access to the user's files."""
    try:
        user = pwd.getpwuid(os.geteuid())
        return gid == user.pw_gid and not {*grp.getgrgid(gid).gr_mem} - {user.pw_name}
    except KeyError:
        return False


def _unlock(folder: int, path: str, lock: int) -> None:
    name = _lock_name(path)
    with suppress(OSError):
        if _is_at(lock, folder, name):  # else it is another server's
            os.unlink(name, dir_fd=folder)
    os.close(lock)


def _is_at(file: int, folder: int, name: str) -> bool:
    """Whether an open file is the one of that name."""
    try:
        return os.path.samestat(os.fstat(file), os.stat(name, dir_fd=folder, follow_symlinks=False))
    except OSError:
        return False


def _lock_name(path: str) -> str:
    return os.path.basename(path) + ".lock"


def _lock(folder: int, path: str, owner: int | None = None) -> int:
    """A lock that ends with its process, and so tells a live server from a stale socket file.

    `owner` is whose server it may have been; None means this user's.
    """
    owners = {os.geteuid(), os.geteuid() if owner is None else owner}
    name, shown = _lock_name(path), path + ".lock"
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    while True:
        try:
            lock = os.open(name, flags, 0o600, dir_fd=folder)
        except OSError as problem:
            raise BadInput(
                f"cannot lock {shown}: {problem.strerror}; choose another --socket"
            ) from problem
        try:
            if _locked(folder, name, shown, lock, owners):
                return lock
        except OSError as problem:
            os.close(lock)
            raise BadInput(
                f"cannot write {shown}: {problem.strerror}; free some space, or choose another --socket"
            ) from problem
        except BaseException:
            os.close(lock)
            raise
        os.close(lock)


def _locked(folder: int, name: str, shown: str, lock: int, owners: set[int]) -> bool:
    """False if its owner removed the file between open and lock, so that there is a new one to try."""
    status = os.fstat(lock)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1 or status.st_uid not in owners:
        owner = user_name(status.st_uid)
        raise BadInput(
            f"{shown} is not your lock file (it belongs to {owner}); remove it, or choose another --socket"
        )
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as problem:
        digits = os.read(lock, 20).split(b"\n")[0].decode("ascii", "replace")
        owner = digits if digits.isdigit() else "unknown"
        raise AlreadyServed(
            f"another ttmem server (pid {owner}) serves {shown.removesuffix('.lock')};"
            " stop it, or give this one its own --socket"
        ) from problem
    same = _is_at(lock, folder, name)
    if same:
        os.ftruncate(lock, 0)
        os.write(lock, f"{os.getpid()}\n".encode())
    return same


def _clear_stale(folder: int, path: str) -> None:
    name = os.path.basename(path)
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise BadInput(f"{path} exists and is not a socket; remove it, or choose another --socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_PATIENCE_S)
        try:
            probe.connect(f"/proc/self/fd/{folder}/{name}")
        except OSError as problem:
            if problem.errno not in (errno.ECONNREFUSED, errno.ENOENT):
                raise BadInput(
                    f"cannot determine who serves {path}: {problem}; choose another --socket"
                ) from problem
        else:
            raise AlreadyServed(
                f"another program serves {path}; stop it, or give this one its own --socket"
            )
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        pass
    except OSError as problem:
        raise BadInput(
            f"{path} is left over from {user_name(found.st_uid)}: {problem.strerror}; choose another --socket"
        ) from problem


class SocketState(Enum):
    ABSENT = "absent"
    SERVED = "served"
    STALE = "stale"  # a socket file that nobody listens on
    CLOSED = "closed"  # another user's, who does not let this user connect
    NO_SOCKET = "no socket"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class SocketFacts:
    path: str
    state: SocketState
    user: str | None = None
    server_pid: int | None = None
    server: str | None = None  # its command line


def knock(path: str) -> SocketFacts:
    """Finds out who listens on a socket, by connecting and closing again."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return SocketFacts(path, SocketState.ABSENT)
    except OSError:
        return SocketFacts(path, SocketState.UNKNOWN)
    user = user_name(status.st_uid)
    if not stat.S_ISSOCK(status.st_mode):
        return SocketFacts(path, SocketState.NO_SOCKET, user)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(_PATIENCE_S)
        try:
            client.connect(path)
            pid, _ = peer_credentials(client)
        except ConnectionRefusedError:
            return SocketFacts(path, SocketState.STALE, user)
        except FileNotFoundError:
            return SocketFacts(path, SocketState.ABSENT)
        except PermissionError:
            return SocketFacts(path, SocketState.CLOSED, user)
        except OSError:
            return SocketFacts(path, SocketState.UNKNOWN, user)
    # The pid is 0 if the server is in a container that is not visible from here.
    command = process_facts(pid).command if pid else None
    return SocketFacts(path, SocketState.SERVED, user, pid or None, command)
