"""What the kernel says about processes and users: /proc, and the peer of a socket.

A process is (pid, start time). What is unknown, or hidden from this user, is None.
"""

from __future__ import annotations

import errno
import os
import pwd
import struct
import time
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from ttmem.clock import now_ns
from ttmem.fast_dataclasses import NamedTuple, dataclass
from ttmem.text import printable
from ttmem.workloads import Workload, workload

if TYPE_CHECKING:
    from socket import socket

# As many mappings as the kernel allows take 10 MB. With paths made long on purpose they take 260, and a second per 64.
_LARGEST_MAPS = 16 << 20
_LARGEST_FILE = 64 << 20
# Larger objects are mapped and unmapped by malloc, which takes longer than reading.
_PART = 64 << 10
_BEGINNING = 4096
LARGEST_PID = 1 << 22  # the kernel's own limit
_CREDENTIALS = struct.Struct("3i")
# The kernel gives its initial namespaces these inode numbers on every machine.
_INITIAL_NAMESPACES = {"pid": 0xEFFFFFFC, "ipc": 0xEFFFFFFF}


@dataclass(frozen=True, slots=True)
class ProcessFacts:
    """What /proc said about a process when it was first seen."""

    pid: int
    start_time_ns: int | None
    user: str | None
    command: str | None
    mark: tuple[
        bytes, ...
    ] = ()  # of the program that it ran, see `RunningProgram`; empty if unknown
    workload: Workload | None = None  # the container, pod or job that it belongs to


def peer_credentials(connection: socket) -> tuple[int, int]:
    """(pid, uid) of the other end; pid 0 if it is in a namespace that is not visible here."""
    from socket import SO_PEERCRED, SOL_SOCKET  # here, since `ttmem ps` has no peer

    raw = connection.getsockopt(SOL_SOCKET, SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _ = _CREDENTIALS.unpack(raw)
    return pid, uid


@lru_cache(maxsize=1024)
def user_name(uid: int | None) -> str | None:
    """The login name, or the number if it has none."""
    if uid is None:
        return None
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def owner_of(path: str) -> str | None:
    """The user who owns a file, or a link; None if that is unknown."""
    try:
        return user_name(os.lstat(path).st_uid)
    except OSError:
        return None


def user_title(uid: int) -> str:
    """For sentences: 'user nobody (uid 65534)'."""
    return f"user {user_name(uid)} (uid {uid})"


# -- /proc/PID/stat ----------------------------------------------------------------------------------------------


_OVER = (b"Z", b"X")  # states


@lru_cache(maxsize=1)
def _boot_time_ns() -> int:
    with open("/proc/stat", "rb") as stat:
        for line in stat:
            if line.startswith(b"btime "):
                return int(line.split()[1]) * 1_000_000_000
    return 0


def _stat(pid: int) -> list[bytes] | None:
    """The fields of /proc/PID/stat from the state on; None if the process is gone or hidden."""
    text = _beginning(f"/proc/{pid}/stat")
    if text is None:
        return None
    # The command is in brackets, and may itself contain brackets and spaces.
    return text[text.rfind(b")") + 2 :].split()


def _running(pid: int) -> list[bytes] | None:
    """The same; None also if it has ended, although its parent has not asked for the exit code yet."""
    fields = _stat(pid)
    return None if fields is None or fields[0] in _OVER else fields


def _started_ns(fields: list[bytes]) -> int:
    return _boot_time_ns() + int(fields[19]) * (1_000_000_000 // os.sysconf("SC_CLK_TCK"))


def start_time_ns(pid: int) -> int | None:
    """In ns since 1970, in steps of 1/100 s; None if the process is gone or hidden."""
    fields = _running(pid)
    return None if fields is None else _started_ns(fields)


def start_time_error_ns() -> int:
    """By how much `start_time_ns` is too early, by the present clock.

    The kernel reports the boot time in whole seconds, which is enough to tell processes apart, but not to compare a
    start with a timestamp.
    """
    booted_ns = now_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    return booted_ns - _boot_time_ns()


def is_alive(pid: int, started_ns: int | None) -> bool:
    """False if the process is gone, or its pid has been given to another one."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # another user's process is alive, too
    fields = _stat(pid)
    if fields is None:
        return (
            True  # hidden, or we have no descriptor left; the kernel has just said that it exists
        )
    return fields[0] not in _OVER and started_ns in (None, _started_ns(fields))


class RunningProgram(NamedTuple):
    """Which process, and which program it runs: `exec` keeps pid and start time."""

    start_ticks: int
    # Where code and stack begin: `exec` moves them, unless address randomisation is off.
    mark: tuple[bytes, ...]


def program(pid: int) -> RunningProgram | None:
    """None if the process has ended or is hidden."""
    fields = _running(pid)
    return None if fields is None else RunningProgram(int(fields[19]), tuple(fields[23:26]))


def parent_pid(pid: int) -> int | None:
    """None if the process has ended or is hidden."""
    fields = _stat(pid)
    return int(fields[1]) if fields is not None else None


def runs_another_program(facts: ProcessFacts) -> bool:
    """Whether it has called `exec` since. False if that cannot be determined, or if it has ended."""
    running = program(facts.pid)
    hidden = running is None or running.mark[-1] == b"0"  # no stack: hidden from this user
    return bool(facts.mark) and not hidden and running is not None and running.mark != facts.mark


# -- /proc/PID/status --------------------------------------------------------------------------------------------


def user_id(pid: int) -> int | None:
    """The effective uid in this user namespace.

    The owner of /proc/PID is no substitute: it is root for a process that may not be dumped.
    """
    text = _beginning(f"/proc/{pid}/status") or b""
    # The name comes before it, but the kernel escapes line ends in names.
    found = text.find(b"\nUid:")
    return int(text[found + 5 :].split(None, 2)[1]) if found >= 0 else None


def name_and_inner_pid(pid: int) -> tuple[str | None, int | None]:
    """(name, pid in its container or None if it is in none); no name: the process is gone."""
    name: str | None = None
    status = content(f"/proc/{pid}/status") or b""  # lists all groups of the user, up to 65,536
    for line in status.split(b"\n"):
        if line.startswith(b"Name:"):
            name = printable(line[5:].strip())
        elif line.startswith(b"NSpid:"):
            numbers = line.split()[1:]
            return name, int(numbers[-1]) if len(numbers) > 1 else None
    return name, None


def visible_pids() -> Iterator[int]:
    """All processes that /proc shows to this user."""
    try:
        names = os.listdir("/proc")
    except OSError:
        return
    for name in names:
        if name.isascii() and name.isdigit():
            yield int(name)


# When it was taken, and host pids by pid in the container. Takes 15 us for each process of the host.
_inner_pids: tuple[int, dict[int, list[int]]] = 0, {}
_INNER_PIDS_KEPT_NS = 1_000_000_000


def pid_outside(inner: int, start_ticks: int, uid: int, since_ns: int) -> int | None:
    """The process of that user which a container knows by that pid, and which started then.

    It existed at `since_ns` (wall clock), so a list of processes taken after that includes it.
    """
    global _inner_pids
    now = now_ns()
    taken_ns, found = _inner_pids
    if not since_ns < taken_ns <= now < taken_ns + _INNER_PIDS_KEPT_NS:
        found = {}
        for pid in visible_pids():
            number = name_and_inner_pid(pid)[1]
            if number is not None:
                found.setdefault(number, []).append(pid)
        _inner_pids = now, found
    for pid in found.get(inner, ()):
        running = program(pid)
        if running is not None and running.start_ticks == start_ticks and user_id(pid) == uid:
            return pid
    return None


# -- other files of /proc ----------------------------------------------------------------------------------------


def content(path: str) -> bytes | None:
    """A file of /proc; None if it does not exist or is hidden."""
    return _read(path, _LARGEST_FILE)


def _beginning(path: str) -> bytes | None:
    """Like `content`, but only what the first read gives: enough of files that are short."""
    return _read(path, 0)


def _read(path: str, most: int) -> bytes | None:
    try:
        # Twice as fast as a file object, and called for every process in every reading.
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            parts = [os.read(file, _BEGINNING)]
            size = len(parts[0])
            while size < most and (part := os.read(file, _PART)):
                parts.append(part)
                size += len(part)
            return b"".join(parts)
        finally:
            os.close(file)
    except OSError:
        return None


def comm(pid: int) -> bytes:
    """The name of the main thread; empty if the process is gone."""
    return (_beginning(f"/proc/{pid}/comm") or b"").strip()


def environ(pid: int) -> dict[bytes, bytes] | None:
    """The environment it was started with."""
    data = content(f"/proc/{pid}/environ")
    return None if data is None else dict(w.partition(b"=")[::2] for w in data.split(b"\0"))


def maps(pid: int) -> bytes | None:
    """Its /proc/PID/maps, which no `exec` carries over. Empty if it has ended; None if it is too long."""
    try:
        with open(f"/proc/{pid}/maps", "rb", buffering=0) as file:
            parts, size = [], 0
            while part := file.read(1 << 16):
                parts.append(part)
                size += len(part)
                if size > _LARGEST_MAPS:
                    return None
            return b"".join(parts)
    except (FileNotFoundError, ProcessLookupError):
        return b""
    except OSError:  # hidden from us, or we have no descriptor left
        return None


# `struct procmap_query` of <linux/fs.h> in words of 64 bits: its size, flags, an address; then start, end, flags, page
# size, offset and inode of the mapping found, major and minor of its device; and names, which are not asked for.
_QUERY_WORDS = 13
_END, _INODE, _DEVICE = 4, 8, 9
_QUERY_MAPPING = 0xC0686611  # ioctl PROCMAP_QUERY
_NEXT_SHARED_FILE = 0x08 | 0x10 | 0x20
_MOST_SHARED_FILES = 8192


def shared_files(pid: int) -> frozenset[tuple[int, int]] | None:
    """(device, inode) of the files that it maps as shared memory; None if they are hidden or too many.

    None before Linux 6.11, too. Later ones find these mappings without printing all others, which takes five times as
    long.
    """
    import fcntl  # here, since only this needs it

    found: dict[int, set[int]] = {}  # inodes by device
    query = bytearray(8 * _QUERY_WORDS)
    words = memoryview(query).cast("Q")
    words[0], words[1] = len(query), _NEXT_SHARED_FILE
    try:
        file = os.open(f"/proc/{pid}/maps", os.O_RDONLY | os.O_CLOEXEC)
        try:
            for _ in range(_MOST_SHARED_FILES):
                words[2] = words[_END]
                fcntl.ioctl(file, _QUERY_MAPPING, query)
                found.setdefault(words[_DEVICE], set()).add(words[_INODE])
        finally:
            os.close(file)
    except OSError as error:
        if error.errno == errno.ENOENT:
            devices = {word: os.makedev(word & 0xFFFFFFFF, word >> 32) for word in found}
            return frozenset((devices[word], number) for word in found for number in found[word])
    return None


def process_facts(pid: int, uid: int | None = None) -> ProcessFacts:
    if uid is None:
        uid = user_id(pid)
    fields = _running(pid) or []
    return ProcessFacts(
        pid,
        _started_ns(fields) if fields else None,
        user_name(uid),
        command_line(pid),
        tuple(fields[23:26]),
        workload_of(pid),
    )


def workload_of(pid: int) -> Workload | None:
    """The container, pod or job that it belongs to."""
    cgroup = content(f"/proc/{pid}/cgroup") or b""
    return workload(cgroup, lambda: content(f"/proc/{pid}/environ") or b"")


def command_line(pid: int) -> str | None:
    """The command line it was started with, in printable characters."""
    cmdline = _beginning(f"/proc/{pid}/cmdline")
    if cmdline is None:
        return None
    words = cmdline.split(b"\0")
    text = " ".join(word.decode("utf-8", "replace") for word in words if word)
    return printable(text, " ") or None


def in_initial_namespace(kind: str) -> bool | None:
    """Whether this process is in the host's own namespace of that kind, 'pid' or 'ipc'."""
    try:
        return os.stat(f"/proc/self/ns/{kind}").st_ino == _INITIAL_NAMESPACES[kind]
    except OSError:
        return None


def sees_all_processes() -> bool:
    """In the initial PID namespace, with a /proc that hides nothing, every process is visible."""
    return bool(in_initial_namespace("pid")) and os.access("/proc/1/status", os.R_OK)
