"""Which processes are alive, asked for thousands of slots in every reading.

A pidfd stays with its process even if the pid is reused, and one poll tells which of them have ended, zombies included:
64 processes take 20 us, while reading their /proc files takes 900.
"""

from __future__ import annotations

import os
import select
from collections.abc import Iterable

from ttmem.fast_dataclasses import NamedTuple
from ttmem.procfs import is_alive, start_time_error_ns, start_time_ns, user_id
from ttmem.sources.containers import device_at
from ttmem.sources.counters.proc_scan import ProcBudget, RegionKey, mapped_regions

# The kernel counts start times in hundredths of a second.
_TICK_NS = 10_000_000
NEVER = 1 << 64
# Nine years: later than any clock that counts from boot, earlier than any that counts from 1970. Also the bound for
# processes whose start is hidden from us.
FIRST_WALL_CLOCK_NS = 1 << 58
# Descriptors are scarce; for further processes /proc is read.
_MAX_WATCHED = 256
# After so many readings all are forgotten, so that processes no longer listed anywhere are not watched forever.
_READINGS_BEFORE_RESET = 100


class ProcessState(NamedTuple):
    """`since_ns`: an update before that is not its own; `NEVER` if it is dead. `uid` is None if it is hidden."""

    alive: bool
    start_time_ns: int | None
    since_ns: int
    uid: int | None = None


class ProcessStates(dict[int, ProcessState]):
    """By pid, valid for one reading; `renew` starts the next."""

    def __init__(self) -> None:
        super().__init__()
        self._error_ns = start_time_error_ns()
        self._pids: dict[int, int] = {}  # by pidfd
        self._poll = select.poll()
        self._unwatched: list[int] = []
        self._folders: dict[int, int | None] = {}  # the file system each has at /dev/shm
        self._mapped: dict[int, frozenset[RegionKey] | None] = {}
        self._budget = ProcBudget()
        self._readings = 0

    def __missing__(self, pid: int) -> ProcessState:
        watched = self._watch(pid)
        state = self._ask(pid)
        if not (watched and state.alive):
            self._unwatched.append(pid)
        self[pid] = state
        return state

    def _ask(self, pid: int) -> ProcessState:
        started = start_time_ns(pid) if pid > 0 else None
        if started is not None:
            return ProcessState(True, started, started + self._error_ns - _TICK_NS, user_id(pid))
        if pid > 0 and is_alive(pid, None):
            return ProcessState(True, None, FIRST_WALL_CLOCK_NS)
        return ProcessState(False, None, NEVER)

    def fits(self, pid: int, updated_ns: int) -> bool:
        """Whether it is alive, and old enough to have written that update; 0 means no update yet."""
        state = self[pid]
        return state.alive and (not updated_ns or state.since_ns <= updated_ns)

    def goes_on(self, pid: int, started_ns: int | None) -> bool:
        """Whether it is alive, and the one that started then; None accepts any start."""
        state = self[pid]
        return state.alive and started_ns in (None, state.start_time_ns)

    def have_left(self, pids: Iterable[int], region: RegionKey) -> set[int]:
        """Those that are alive, but have left: nearly all are known to map the file."""
        mapped, nothing = self._mapped.get, frozenset[RegionKey]()
        return {
            pid
            for pid in pids
            if region not in (mapped(pid) or nothing)
            and self[pid].alive
            and self.has_left(pid, region)
        }

    def has_left(self, pid: int, region: RegionKey) -> bool:
        """Whether it no longer maps the file: `exec` keeps pid and start time, but no mapping.

        Only for a file in its own /dev/shm, since nobody maps a copy elsewhere.
        """
        if pid not in self._folders:
            self._folders[pid] = device_at(f"/proc/{pid}/root/dev/shm")
        if self._folders[pid] != region[0]:
            return False
        return self.maps(pid, region) is False

    def maps(self, pid: int, region: RegionKey) -> bool | None:
        """Whether it maps the file now; None if that is hidden."""
        if pid not in self._mapped:
            self._mapped[pid] = self._budget.ask(self[pid].uid, mapped_regions, pid)
        mapped = self._mapped[pid]
        return None if mapped is None else region in mapped

    def renew(self) -> None:
        """Forgets what may have changed."""
        self._folders.clear()
        self._mapped.clear()
        self._budget = ProcBudget()
        for pidfd, _ in self._poll.poll(0):
            self._unwatched.append(self._release(pidfd))
        for pid in self._unwatched:
            self.pop(pid, None)
        self._unwatched.clear()
        self._readings += 1
        error_ns = start_time_error_ns()
        clock_was_set = abs(error_ns - self._error_ns) > _TICK_NS // 2
        if clock_was_set or self._readings % _READINGS_BEFORE_RESET == 0:
            self._error_ns = error_ns
            self.close()

    def close(self) -> None:
        """Forgets everything."""
        for pidfd in list(self._pids):
            self._release(pidfd)
        self.clear()

    def __del__(self) -> None:
        self.close()

    def _watch(self, pid: int) -> bool:
        if pid <= 0 or len(self._pids) >= _MAX_WATCHED:
            return False
        try:
            pidfd = os.pidfd_open(pid)
        except (OSError, AttributeError):  # interpreters built for old kernels have no such call
            return False
        self._pids[pidfd] = pid
        self._poll.register(pidfd, select.POLLIN)
        return True

    def _release(self, pidfd: int) -> int:
        self._poll.unregister(pidfd)
        os.close(pidfd)
        return self._pids.pop(pidfd)
