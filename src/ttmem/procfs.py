"""Who a process is: (pid, start time), and what the kernel tells of it."""

from __future__ import annotations

import os
import pwd
import socket
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from ttmem.clock import now_ns
from ttmem.text import printable

# As many mappings as the kernel allows take 10 MB; with paths made long on purpose they take 260, and a second each 64.
_LARGEST_MAPS = 16 << 20
_LARGEST_STATUS = 1 << 19  # it names all groups of the user, of which there may be 65,536


@dataclass(frozen=True, slots=True)
class ProcessFacts:
    """What /proc said of a process when it was first seen; unknown is None."""

    pid: int
    start_time_ns: int | None
    user: str | None
    command: str | None
    mark: tuple[bytes, ...] = ()  # of the program that it ran, see `Program`; empty if unknown


_FIRST_PID_NAMESPACE = 0xEFFFFFFC  # the kernel's number for it
_CREDENTIALS = struct.Struct("3i")


def peer_credentials(connection: socket.socket) -> tuple[int, int]:
    """(pid, uid) of the other end; pid 0 if it lives in a namespace that this one cannot see."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _ = _CREDENTIALS.unpack(raw)
    return pid, uid


@lru_cache(maxsize=1)
def _boot_time_ns() -> int:
    with open("/proc/stat", "rb") as stat:
        for line in stat:
            if line.startswith(b"btime "):
                return int(line.split()[1]) * 1_000_000_000
    return 0


def _stat(pid: int) -> list[bytes] | None:
    """The fields of /proc/PID/stat from the state on; None if it is gone or hidden."""
    try:
        # Half the time of a file object, and asked for every process at every look.
        stat = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
        try:
            text = os.read(stat, 4096)
        finally:
            os.close(stat)
    except OSError:
        return None
    # The command stands in brackets and may hold brackets and spaces itself.
    return text[text.rfind(b")") + 2 :].split()


def _is_over(fields: list[bytes]) -> bool:
    """Ended, though its parent has not asked for its exit code yet."""
    return fields[0] in (b"Z", b"X")


def start_time_ns(pid: int) -> int | None:
    """When the process started, in ns since 1970 (1/100 s steps); None if it is gone or hidden."""
    fields = _stat(pid)
    return None if fields is None or _is_over(fields) else _started_ns(fields)


def _started_ns(fields: list[bytes]) -> int:
    return _boot_time_ns() + int(fields[19]) * (1_000_000_000 // os.sysconf("SC_CLK_TCK"))


def visible_pids() -> Iterator[int]:
    """Of all processes that /proc shows to this user."""
    try:
        names = os.listdir("/proc")
    except OSError:
        return
    for name in names:
        if name.isascii() and name.isdigit():
            yield int(name)


def name_and_inner_pid(pid: int) -> tuple[str | None, int | None]:
    """(name, the pid by which its container knows it, or None if it has no other); no name: it is gone."""
    name: str | None = None
    for line in _status(pid).split(b"\n"):
        if line.startswith(b"Name:"):
            name = printable(line[5:].strip())
        elif line.startswith(b"NSpid:"):
            numbers = line.split()[1:]
            return name, int(numbers[-1]) if len(numbers) > 1 else None
    return name, None


@dataclass(slots=True)
class _Inside:
    """Host pids by the pid inside; it costs 15 us for each process of the host."""

    taken_ns: int = 0
    pids: dict[int, list[int]] = field(default_factory=dict)


_inside = _Inside()
_INSIDE_KEPT_NS = 1_000_000_000


def pid_outside(inner: int, start_ticks: int, uid: int, since_ns: int) -> int | None:
    """Which process of that user a container knows by that pid, if it started then; None: there is none.

    It was there at `since_ns` (wall clock), so that a look at all processes after that has met it.
    """
    global _inside
    now = now_ns()
    if not since_ns < _inside.taken_ns <= now < _inside.taken_ns + _INSIDE_KEPT_NS:
        found: dict[int, list[int]] = {}
        for pid in visible_pids():
            number = name_and_inner_pid(pid)[1]
            if number is not None:
                found.setdefault(number, []).append(pid)
        _inside = _Inside(now, found)
    for pid in _inside.pids.get(inner, ()):
        running = program(pid)
        if running is not None and running.start_ticks == start_ticks and user_id(pid) == uid:
            return pid
    return None


class Program(NamedTuple):
    """A life, and the program that it runs: `exec` keeps pid and start time."""

    start_ticks: int
    mark: tuple[
        bytes, ...
    ]  # where code and stack begin: `exec` moves them, unless addresses are not random


def program(pid: int) -> Program | None:
    """What the process runs now; None if it has ended or is hidden."""
    fields = _stat(pid)
    if fields is None or _is_over(fields):
        return None
    return Program(int(fields[19]), tuple(fields[23:26]))


def runs_another_program(facts: ProcessFacts) -> bool:
    """Has it called `exec` since? False if that cannot be told, and of a process that has ended."""
    running = program(facts.pid)
    hidden = running is None or running.mark[-1] == b"0"  # no stack: what it runs is kept from us
    return bool(facts.mark) and not hidden and running is not None and running.mark != facts.mark


def maps(pid: int) -> bytes | None:
    """Its /proc/PID/maps, the one thing that no `exec` carries over; None if it cannot be told, or is far too long."""
    try:
        with open(f"/proc/{pid}/maps", "rb", buffering=0) as file:
            parts, size = [], 0
            while part := file.read(1 << 16):
                parts.append(part)
                size += len(part)
                if size > _LARGEST_MAPS:
                    return None
            return b"".join(parts)
    except (FileNotFoundError, ProcessLookupError):  # it has ended
        return b""
    except OSError:  # hidden from us, or we have no descriptor left
        return None


def start_time_error_ns() -> int:
    """How much later than `start_time_ns` says processes started by the clock of this instant.

    The kernel tells the time of boot in whole seconds, which is enough to tell processes apart,
    but not to compare a start with a timestamp.
    """
    booted_ns = now_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    return booted_ns - _boot_time_ns()


def user_id(pid: int) -> int | None:
    """The effective uid, as this user namespace shows it; None if the process is gone or hidden.

    /proc/PID itself belongs to root where a process may not be dumped, whoever runs it.
    """
    text = _status(pid)
    # The name comes before it; the kernel escapes line ends in it.
    found = text.find(b"\nUid:")
    return int(text[found + 5 :].split(None, 2)[1]) if found >= 0 else None


def _status(pid: int) -> bytes:
    """The first lines of /proc/PID/status; empty if the process is gone or hidden."""
    try:
        status = os.open(f"/proc/{pid}/status", os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.read(status, _LARGEST_STATUS)
        finally:
            os.close(status)
    except OSError:
        return b""


def process_facts(pid: int, uid: int | None = None) -> ProcessFacts:
    """Start time, user and command line of a process."""
    if uid is None:
        uid = user_id(pid)
    running = program(pid)
    mark = running.mark if running else ()
    return ProcessFacts(pid, start_time_ns(pid), user_name(uid), _command(pid), mark)


@lru_cache(maxsize=1024)
def user_name(uid: int | None) -> str | None:
    """The login name, or the number if it has none."""
    if uid is None:
        return None
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def user_title(uid: int) -> str:
    """For sentences: 'user nobody (uid 65534)'."""
    return f"user {user_name(uid)} (uid {uid})"


def _command(pid: int) -> str | None:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as cmdline:
            words = cmdline.read(4096).split(b"\0")
    except OSError:
        return None
    text = " ".join(word.decode("utf-8", "replace") for word in words if word)
    return printable(text, " ") or None


def sees_all_processes() -> bool:
    """In the first PID namespace, with a /proc that hides nobody, no process is out of sight."""
    try:
        first = os.stat("/proc/self/ns/pid").st_ino == _FIRST_PID_NAMESPACE
        return first and os.access("/proc/1/status", os.R_OK)
    except OSError:
        return False


def is_alive(pid: int, started_ns: int | None) -> bool:
    """True unless the process is gone, or its pid has been given to another one."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # somebody else's process is alive too
    fields = _stat(pid)
    if fields is None:
        return True  # hidden, or we have no descriptor left; but the kernel has just said that it is there
    return not _is_over(fields) and started_ns in (None, _started_ns(fields))
