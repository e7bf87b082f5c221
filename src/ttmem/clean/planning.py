"""What `ttmem clean` would do, and what it leaves alone."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from ttmem.clean.backup import check_size
from ttmem.clean.slots import DeadSlot, judge_rows
from ttmem.events import Remark
from ttmem.procfs import user_name
from ttmem.sizes import human
from ttmem.sources.counters.files import Contents, CounterFile, counter_files, read_counter_file
from ttmem.sources.counters.proc_scan import scan_proc
from ttmem.sources.counters.process_states import ProcessStates
from ttmem.sources.host import ProbeFacts, probe_facts, surroundings
from ttmem.sources.owned_files import Changed, Foreign, Key, OpenFile, Use, leased, opened
from ttmem.sources.socket.listener import SocketState, knock

# Layout 4 updates its totals by differences: clearing a row requires subtracting it as well, atomically, which only a
# process that maps the region can do. Its runtime does so itself.
_REAPS_BY_ITSELF = 4


@dataclass(frozen=True, slots=True)
class ClearSlots:
    """The region is in use, so only the rows of dead processes are cleared. `size` determines its layout."""

    path: str
    key: Key
    slots: tuple[DeadSlot, ...]
    size: int


@dataclass(frozen=True, slots=True)
class RemoveRegion:
    """The region is not in use; `data` is its whole contents."""

    path: str
    key: Key
    data: bytes
    slots: tuple[DeadSlot, ...]


@dataclass(frozen=True, slots=True)
class RemoveSocket:
    """Nobody listens on it."""

    path: str


@dataclass(frozen=True, slots=True)
class RemoveProbe:
    """A probe region whose process is dead."""

    path: str
    key: Key
    pid: int
    size: int


Step = ClearSlots | RemoveRegion | RemoveSocket | RemoveProbe


@dataclass(frozen=True, slots=True)
class LeftAlone:
    """Something ttmem may not or will not touch; `command` is what the user can do."""

    path: str
    reason: str
    command: str | None = None
    by_force: bool = False  # the command may affect a live process


@dataclass(frozen=True, slots=True)
class Plan:
    """What would be done, and what would be left alone."""

    steps: tuple[Step, ...]
    left: tuple[LeftAlone, ...]

    def does(self, path: str) -> bool:
        return any(step.path == path for step in self.steps)

    def refuses(self, path: str) -> LeftAlone | None:
        """Set if this file is left alone."""
        return next((left for left in self.left if left.path == path), None)


@dataclass(frozen=True, slots=True)
class Outcome:
    """`did` is the step, or the part of it that was done, or None; `problem` is None if all was done."""

    step: Step
    did: Step | None
    problem: str | None = None


def make_plan(folder: str | None, socket: str | None, force: bool = False) -> Plan:
    """Examines everything without changing anything. Steps are in the order in which they will be done.

    `folder` and `socket` are what to clean, if anything. `force`: treat a pid that is not visible here as dead.
    """
    found: list[Step | LeftAlone] = []
    if folder is not None:
        found += _regions(folder, _Judge(force))
    if socket is not None:
        found += _socket(socket)
    return Plan(
        tuple(each for each in found if not isinstance(each, LeftAlone)),
        tuple(each for each in found if isinstance(each, LeftAlone)),
    )


def _regions(folder: str, judge: _Judge) -> Iterator[Step | LeftAlone]:
    for entry in counter_files(folder):
        if isinstance(entry, Remark):
            yield LeftAlone(entry.path or folder, entry.text)
        else:
            found = judge.region(entry)
            if found is not None:
                yield found
    yield from judge.probes(folder)


def _socket(path: str) -> Iterator[Step | LeftAlone]:
    state = knock(path).state
    if state is SocketState.STALE:
        yield _foreign_socket(path) or RemoveSocket(path)
    elif state is SocketState.NO_SOCKET:
        yield LeftAlone(path, f"{path}: not a socket, so it is not ttmem's")


def _foreign_socket(path: str) -> LeftAlone | None:
    try:
        uid = os.lstat(path).st_uid
    except OSError:
        return None  # gone; the step will notice
    if os.geteuid() in (0, uid):
        return None
    reason = f"{os.path.basename(path)}: belongs to user {user_name(uid)}"
    return LeftAlone(path, reason, f"sudo ttmem clean --socket {shlex.quote(path)}")


class _Judge:
    """Examines regions, looking at the processes of the host only once."""

    def __init__(self, force: bool) -> None:
        self._force = force
        self._here = surroundings()
        self._scan = scan_proc()
        self._states = ProcessStates()
        self._contained = {pid for pids in self._scan.in_containers.values() for pid in pids}

    def region(self, file: CounterFile) -> ClearSlots | RemoveRegion | LeftAlone | None:
        """None if there is nothing to clean."""
        seen = read_counter_file(file)
        if seen is None:
            return None
        if isinstance(seen, Remark):
            helps = f"sudo {_command(os.path.dirname(file.path))}"
            return LeftAlone(file.path, seen.text, helps if seen.kind == "other_user" else None)
        data, key = seen.data, seen.key
        rows, live = judge_rows(data, key, self._states, self._scan)
        mappers = self._scan.mapped_by.get(key, frozenset())
        try:
            with opened(file.path, key) as there:
                use = Use.SOMEBODY if live or mappers else _use(there)
        except Changed as problem:
            return _refused(file.path, problem)
        if use is Use.SOMEBODY:
            return self._clearing(seen, rows, mappers)
        doubt = None if use is Use.NOBODY else self._doubt(mappers)
        if doubt is not None:
            return _doubtful(file.path, doubt)
        return RemoveRegion(file.path, key, data, rows)

    def _clearing(
        self, seen: Contents, rows: tuple[DeadSlot, ...], mappers: frozenset[int]
    ) -> ClearSlots | LeftAlone | None:
        file = seen.file
        if not rows:
            return None
        size = human(sum(slot.held for slot in rows))
        if seen.region.version == _REAPS_BY_ITSELF:
            return LeftAlone(
                file.path,
                f"{file.name}: {size} of dead processes in a region of layout 4 that is in use; "
                "its runtime clears them itself, totals included, when the next process opens "
                "the device",
            )
        doubt = self._doubt(mappers)
        if doubt is not None:
            return _doubtful(file.path, doubt)
        return ClearSlots(file.path, seen.key, rows, len(seen.data))

    def _doubt(self, mappers: frozenset[int]) -> str | None:
        """Why a pid that is not visible here may still be alive."""
        if self._force:
            return None
        if not self._here.host_pids:
            return (
                "this is a container with pids of its own, so a process that is not here may be "
                "alive outside; run ttmem on the host"
            )
        if self._here.hidden_pids:
            return "/proc hides other users' processes, so who is alive is not known; run as root"
        if mappers & self._contained:
            return "it is used in a container with pids of its own"
        return None

    def probes(self, folder: str) -> Iterator[RemoveProbe | LeftAlone]:
        """Probe regions whose process is dead."""
        for facts in probe_facts(folder):
            if facts.left_over:
                yield self._probe(facts)

    def _probe(self, facts: ProbeFacts) -> RemoveProbe | LeftAlone:
        try:
            with opened(facts.path) as there:
                check_size(there.status.st_size)
                if there.status.st_size != facts.size:
                    raise Changed("has changed size")
                use = _use(there)
        except Changed as problem:
            return _refused(facts.path, problem)
        if use is Use.SOMEBODY:
            name = os.path.basename(facts.path)
            return LeftAlone(
                facts.path, f"{name}: its process is dead, but another process is reading it"
            )
        doubt = None if use is Use.NOBODY else self._doubt(frozenset())
        if doubt is not None:
            return _doubtful(facts.path, doubt)
        return RemoveProbe(facts.path, there.key, facts.pid, facts.size)


def _refused(path: str, problem: Changed) -> LeftAlone:
    folder, name = os.path.split(path)
    helps = f"sudo {_command(folder)}" if isinstance(problem, Foreign) else None
    return LeftAlone(path, f"{name}: {problem}", helps)


def _doubtful(path: str, doubt: str) -> LeftAlone:
    folder, name = os.path.split(path)
    return LeftAlone(path, f"{name}: {doubt}", f"{_command(folder)} --force --yes", by_force=True)


def _command(folder: str) -> str:
    return f"ttmem clean --shm {shlex.quote(folder)}"


def _use(file: OpenFile) -> Use:
    with leased(file.descriptor) as lease:
        return lease.use
