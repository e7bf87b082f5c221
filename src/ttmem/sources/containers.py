"""Shared memory of other mount namespaces: a container has its own /dev/shm, which is at /proc/PID/root/dev/shm.

Whoever is in a container may mount and link whatever they like, also over single files. A link or a mount would lead
out of it, and a file system in user space could keep its reader waiting. So the mounts of the namespace are looked up
first, only a tmpfs is opened, step by step without following links, and its files are opened relative to that
descriptor, if they are on the same mount.

Opening needs the right to inspect the process: the same user, or CAP_SYS_PTRACE.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice

from ttmem.clock import now_ns
from ttmem.fast_dataclasses import dataclass, field
from ttmem.procfs import name_and_inner_pid, program, visible_pids
from ttmem.sources.shm import DEFAULT_DIRECTORY, is_counter_name, is_region_name

LOOK_S = 1.0  # between two lists of processes
SETTLED_S = 2.0  # a container that is being started mounts its /dev/shm last
AGAIN_S = 30.0  # namespaces and mounts rarely change after that
MOST_OPEN, MOST_OPEN_OF_A_USER = 256, 32  # descriptors are scarce
MOST_NEW_OF_A_USER = 16  # namespaces examined in one look
ROOT_SHARE = 4  # times as many: most engines run as root
MOST_NAMES = 4096  # files in one directory
LARGEST_MOUNTINFO = 1 << 20  # thousands of mounts
_DIRECTORY = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_HIDDEN = -1
_NS_GET_USERNS, _NS_GET_PARENT, _NS_GET_OWNER_UID = 0xB701, 0xB702, 0xB704


def _shm_of(pid: int) -> str:
    return f"/proc/{pid}/root{DEFAULT_DIRECTORY}"


class Container:
    """A /dev/shm other than ours. `path` is for people: files are opened by `open`."""

    def __init__(self, pid: int, device: int, descriptor: int, owner: int) -> None:
        self.owner = owner
        self.path = _shm_of(pid)
        self.device = device
        self._descriptor: int | None = descriptor
        self.pids: frozenset[int] = frozenset()  # of all processes that have it
        self.looked_ns = 0  # when `pids` was determined
        self.counters = self.regions = 0  # files named like one
        self.crowded = False  # too many files to look at
        self._inner: dict[int, int] = {}

    def open(self, name: str) -> int:
        """A plain file, for reading; OSError also if the container is gone."""
        with self._found(name) as found:
            if not stat.S_ISREG(os.fstat(found).st_mode):
                raise OSError(errno.EXDEV, "not a plain file")
            return os.open(f"/proc/self/fd/{found}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)

    def status(self, name: str) -> os.stat_result:
        with self._found(name) as found:
            return os.fstat(found)

    @contextmanager
    def _found(self, name: str) -> Iterator[int]:
        """A descriptor that has opened nothing: no device or file system is asked, not even for the status."""
        directory = self._directory()
        found = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
        try:
            if _mount(found) != _mount(directory):
                raise OSError(errno.EXDEV, "something else is mounted there")
            yield found
        finally:
            os.close(found)

    def entries(self) -> Iterator[os.DirEntry[str]]:
        """Some thousands of its files at most."""
        with os.scandir(self._directory()) as entries:
            yield from islice(entries, MOST_NAMES)

    def known_as(self, inner: int) -> list[int]:
        """The pids here of its processes that know themselves by that number."""
        for pid in self.pids - self._inner.keys():
            self._inner[pid] = name_and_inner_pid(pid)[1] or pid
        return [pid for pid in self.pids if self._inner[pid] == inner]

    def process(self, inner: int, start_ticks: int) -> int | None:
        """The pid here of the one that started then."""
        for pid in self.known_as(inner):
            running = program(pid)
            if running is not None and running.start_ticks == start_ticks:
                return pid
        return None

    def update(self, pids: Iterable[int], now: int) -> None:
        self.pids, self.looked_ns = frozenset(pids), now
        self._inner = {pid: inner for pid, inner in self._inner.items() if pid in self.pids}
        self.counters = self.regions = seen = 0
        try:
            for entry in self.entries():
                seen += 1
                self.counters += is_counter_name(entry.name)
                self.regions += is_region_name(entry.name)
        except OSError:
            pass
        self.crowded = seen >= MOST_NAMES

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __del__(self) -> None:
        self.close()

    def _directory(self) -> int:
        if self._descriptor is None:
            raise FileNotFoundError(errno.ENOENT, "the container is gone", self.path)
        return self._descriptor


@dataclass(slots=True)
class _Namespace:
    """What was found at /dev/shm; no device: `problem` says why."""

    device: int | None
    problem: str | None
    first_s: float
    examined_s: float

    def is_due(self, now: float) -> bool:
        settled = self.examined_s - self.first_s >= SETTLED_S
        return now - self.examined_s >= (AGAIN_S if settled else SETTLED_S)


@dataclass(frozen=True, slots=True)
class ContainerFacts:
    """Processes with a /dev/shm of their own, and what was found in it, or the problem."""

    path: str
    pids: tuple[int, ...]
    counters: int = 0  # files
    regions: int = 0
    problem: str | None = None
    in_use: bool = True  # a process there uses a device, as far as is known


@dataclass(slots=True)
class Containers:
    """Finds them, again and again. What was learned about a process or namespace is remembered for a while."""

    _mounted: dict[int, int] = field(default_factory=dict)  # pid -> mount namespace
    _seen_once: set[int] = field(default_factory=set)
    _namespaces: dict[int, _Namespace] = field(default_factory=dict)
    _owners: dict[int, int] = field(default_factory=dict)  # uid by namespace
    _open: dict[int, Container] = field(default_factory=dict)  # by device
    _looked_s: float = float("-inf")
    _listed_s: float = float("-inf")  # when all processes were asked
    hidden: tuple[int, ...] = ()  # processes whose mount namespace may not be read

    def look(self) -> tuple[Container, ...]:
        """Those that have a file that may be of interest."""
        now = time.monotonic()
        if now - self._looked_s >= LOOK_S:
            self._looked_s = now
            self._renew(now)
        return tuple(
            container
            for container in self._open.values()
            if container.counters or container.regions
        )

    def unread(self) -> Iterator[ContainerFacts]:
        """As of the last look: those whose shared memory cannot be read."""
        groups = self._processes()
        problems = [
            (groups[number], namespace.problem)
            for number, namespace in self._namespaces.items()
            if namespace.problem is not None and number in groups
        ]
        crowded = f"it has more than {MOST_NAMES:,} files; only so many are looked at"
        problems += [([*each.pids], crowded) for each in self._open.values() if each.crowded]
        for group, problem in problems:
            pids = tuple(sorted(group))
            yield ContainerFacts(_shm_of(pids[0]), pids, problem=problem)

    def close(self) -> None:
        for container in self._open.values():
            container.close()
        self._open.clear()
        self._namespaces.clear()
        self._looked_s = float("-inf")

    def _renew(self, now: float) -> None:
        taken_ns = now_ns()
        self._list(now)
        groups = self._processes()
        ours = device_at(DEFAULT_DIRECTORY)
        self._namespaces = {n: known for n, known in self._namespaces.items() if n in groups}
        before = self._owners
        self._owners = {n: before[n] if n in before else _owner(groups[n]) for n in groups}
        examined: Counter[int] = Counter()  # by owner
        for number, pids in groups.items():
            known = self._namespaces.get(number)
            if known is None or known.is_due(now):
                owner = self._owners[number]
                examined[owner] += 1
                if examined[owner] <= _share(MOST_NEW_OF_A_USER, owner):
                    self._examine(number, pids, ours, now)
        devices: dict[int, list[int]] = {}
        for number, namespace in self._namespaces.items():
            if namespace.device is not None:
                devices.setdefault(namespace.device, []).extend(groups[number])
        for device in self._open.keys() - devices.keys():
            self._open.pop(device).close()
        for device, pids in devices.items():
            if device in self._open:
                self._open[device].update(pids, taken_ns)

    def _list(self, now: float) -> None:
        """A process may enter another namespace, as one does that becomes a container: so each is asked twice, and
        again from time to time."""
        present = set(visible_pids())
        if now - self._listed_s >= AGAIN_S:
            self._listed_s = now
            wanted: Iterable[int] = present
        else:
            wanted = [pid for pid in present if pid not in self._mounted or pid in self._seen_once]
        before = self._mounted
        self._mounted = {pid: number for pid, number in before.items() if pid in present}
        self._seen_once = present - before.keys()
        for pid in wanted:
            self._mounted[pid] = _mount_namespace(pid)

    def _processes(self) -> dict[int, list[int]]:
        """Other mount namespaces, and the processes in each."""
        groups: dict[int, list[int]] = {}
        for pid, number in self._mounted.items():
            groups.setdefault(number, []).append(pid)
        groups.pop(_mount_namespace(os.getpid()), None)
        self.hidden = tuple(sorted(groups.pop(_HIDDEN, ())))
        groups.pop(0, None)
        return groups

    def _examine(self, number: int, pids: list[int], ours: int | None, now: float) -> None:
        first = self._namespaces[number].first_s if number in self._namespaces else now
        device, problem = None, None
        for pid in sorted(pids)[:3]:  # the first of them may be ending right now
            try:
                device, problem = self._reach(pid, self._owners[number], ours), None
                break
            except (FileNotFoundError, ProcessLookupError):
                continue
            except OSError as error:
                problem = _reason(error)
            except _NotPlain as found:
                problem = str(found)
        self._namespaces[number] = _Namespace(device, problem, first, now)

    def _reach(self, pid: int, owner: int, ours: int | None) -> int | None:
        """Opens its /dev/shm, unless it is open or ours; None if it has none."""
        # Buffered: it is read until the end, although the kernel returns a page at a time.
        with open(f"/proc/{pid}/mountinfo", "rb") as file:
            device = _private_tmpfs(file.read(LARGEST_MOUNTINFO))
        if device is None or device == ours:
            return None
        if device not in self._open:
            of_owner = sum(container.owner == owner for container in self._open.values())
            most = _share(MOST_OPEN_OF_A_USER, owner)
            if of_owner >= most or len(self._open) >= MOST_OPEN:
                raise _NotPlain(
                    f"{of_owner} others of its user are read already, and {most} is the limit"
                )
            descriptor = _open_shm(pid)
            if os.fstat(descriptor).st_dev != device:  # mounted a moment ago
                os.close(descriptor)
                return None
            self._open[device] = Container(pid, device, descriptor, owner)
        return device


class _NotPlain(Exception):
    """The text says why it is not read."""


def _share(most: int, owner: int) -> int:
    return most if owner else most * ROOT_SHARE


def _owner(pids: Iterable[int]) -> int:
    """The user of this host who made a mount namespace, by one of its processes; root if all of them are gone."""
    for pid in pids:
        with suppress(OSError):
            return _outermost_owner(os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC))
    return 0


def _outermost_owner(namespace: int) -> int:
    """A user namespace has further uids, which can make others: who made the first of them counts."""
    owners = [0]
    found, above = namespace, _NS_GET_USERNS
    try:
        while True:
            namespace, found = found, fcntl.ioctl(found, above)
            os.close(namespace)
            above = _NS_GET_PARENT
            owner = fcntl.ioctl(found, _NS_GET_OWNER_UID, bytes(4))
            owners.append(int.from_bytes(owner, sys.byteorder))
    except PermissionError:  # the last one is that of this process
        return owners[-2]
    finally:
        os.close(found)


def _mount_namespace(pid: int) -> int:
    """0 if the process is gone."""
    try:
        return os.stat(f"/proc/{pid}/ns/mnt").st_ino
    except PermissionError:
        return _HIDDEN
    except OSError:
        return 0


def _private_tmpfs(mountinfo: bytes) -> int | None:
    """The device at /dev/shm, from lines such as `36 35 0:32 / /dev/shm rw - tmpfs shm rw`; None if nothing is mounted.

    The way to it may not lead through a file system that somebody may keep from answering.
    """
    if len(mountinfo) == LARGEST_MOUNTINFO:
        raise _NotPlain("it has too many mounts to examine")
    device = None
    for line in mountinfo.splitlines():
        fields, _, source = line.partition(b" - ")
        words = fields.split()
        if len(words) < 5 or words[4] not in (b"/", b"/dev", b"/dev/shm"):
            continue
        kind = source.split(None, 1)[0].decode("ascii", "replace")
        place = words[4].decode()
        if kind.startswith(("fuse", "nfs", "cifs", "smb", "9p", "ceph", "afs", "autofs")):
            raise _NotPlain(f"{place} is a file system of type {kind}, which may not answer")
        if place == DEFAULT_DIRECTORY:
            if kind != "tmpfs":
                raise _NotPlain(f"{place} is a file system of type {kind}, not tmpfs")
            major, _, minor = words[2].partition(b":")
            device = os.makedev(int(major), int(minor))
    return device


def _open_shm(pid: int) -> int:
    root = os.open(f"/proc/{pid}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        dev = os.open("dev", os.O_PATH | _DIRECTORY, dir_fd=root)
        try:
            return os.open("shm", os.O_RDONLY | _DIRECTORY, dir_fd=dev)
        finally:
            os.close(dev)
    finally:
        os.close(root)


def _mount(descriptor: int) -> bytes:
    """The number of the mount that it is on."""
    with open(f"/proc/self/fdinfo/{descriptor}", "rb") as file:
        return next(line for line in file if line.startswith(b"mnt_id:"))


def device_at(path: str) -> int | None:
    """The file system that is there."""
    try:
        return os.stat(path).st_dev
    except OSError:
        return None


def _reason(error: OSError) -> str:
    if error.errno in (errno.EACCES, errno.EPERM):
        return "you may not inspect its processes, which takes the same user or CAP_SYS_PTRACE"
    return (error.strerror or str(error)).lower()


def containers_beside(folder: str) -> Containers | None:
    """None for a directory that somebody named: then nothing else is meant."""
    return Containers() if folder == DEFAULT_DIRECTORY else None
