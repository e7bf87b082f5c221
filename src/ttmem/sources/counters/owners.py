"""Which process a slot belongs to: a live one, a dead one, or one in a container; or its pid is another's by now."""

from __future__ import annotations

from typing import NamedTuple

from ttmem.events import Owner
from ttmem.procfs import comm
from ttmem.sources.counters.proc_scan import ProcScan
from ttmem.sources.counters.process_states import ProcessStates
from ttmem.text import printable


class Claim(NamedTuple):
    """What a slot says about its owner; `updated_ns` is wall clock, 0 if it was never updated."""

    pid: int
    name: str
    updated_ns: int


class SlotOwner(NamedTuple):
    """`pid` is that of the host; `container_pid` the published one, if it differs."""

    owner: Owner
    pid: int
    start_time_ns: int | None
    container_pid: int | None = None


def judge(
    claim: Claim, region: tuple[int, int], uid: int | None, states: ProcessStates, scan: ProcScan
) -> SlotOwner:
    """A file is believed only about its owner's processes. `uid` is that owner; None accepts any."""
    verdict = _meant(claim, region, states, scan)
    theirs = states[verdict.pid].uid
    if verdict.owner is not Owner.LIVE or uid is None or theirs == uid:
        return verdict
    return verdict._replace(owner=Owner.ROOT if theirs == 0 else Owner.UNVERIFIED)


def _meant(
    claim: Claim, region: tuple[int, int], states: ProcessStates, scan: ProcScan
) -> SlotOwner:
    """Prefers a process of this host to one in a container, which must be unambiguous."""
    pid = claim.pid
    here = states.fits(pid, claim.updated_ns)
    inside = scan.in_containers.get(pid, ())
    if inside and not (here and scan.maps(pid, region)):
        verdict = _in_container(claim, region, inside, here, states, scan)
        if verdict is not None:
            return verdict
    state = states[pid]
    if here and not scan.maps(pid, region) and states.has_left(pid, region):
        return SlotOwner(Owner.REPLACED, pid, None)
    if here or (state.alive and _is_named(claim, pid, region, states, scan)):
        return SlotOwner(Owner.LIVE, pid, state.start_time_ns)
    return SlotOwner(Owner.REUSED if state.alive else Owner.DEAD, pid, None)


def _is_named(
    claim: Claim, pid: int, region: tuple[int, int], states: ProcessStates, scan: ProcScan
) -> bool:
    """Whether it is the owner although it is younger than the update: the clock may have been set."""
    if states.maps(pid, region):
        return True
    name = scan.name(pid) or printable(comm(pid))
    return name == claim.name and not states.has_left(pid, region)


def _in_container(
    claim: Claim,
    region: tuple[int, int],
    inside: tuple[int, ...],
    here: bool,
    states: ProcessStates,
    scan: ProcScan,
) -> SlotOwner | None:
    """The one that maps the file, or that has the right name if maps are hidden."""
    fitting = [
        pid
        for pid in inside
        if states.fits(pid, claim.updated_ns)
        or (states[pid].alive and _is_named(claim, pid, region, states, scan))
    ]
    mapping = [pid for pid in fitting if scan.maps(pid, region)]
    named = [pid for pid in fitting if scan.name(pid) == claim.name]
    if not mapping and here and (not named or scan.name(claim.pid) == claim.name):
        return None
    chosen = mapping or named
    if len(chosen) == 1:
        return SlotOwner(Owner.LIVE, chosen[0], states[chosen[0]].start_time_ns, claim.pid)
    return SlotOwner(Owner.ELSEWHERE, claim.pid, None, claim.pid) if chosen else None


class HiddenWriters:
    """Slots that are still updated although their process is not visible: it is alive where we cannot see it.

    That happens if ttmem runs in a container that shares its /dev/shm with another one. If all processes are visible,
    such an update is a forgery.
    """

    def __init__(self, all_in_sight: bool) -> None:
        self._all_in_sight = all_in_sight
        self._updates: dict[int, int] = {}
        self._updates_now: dict[int, int] = {}
        self._moved: set[int] = set()

    def has_moved(self, pid: int, updated_ns: int) -> bool:
        if self._all_in_sight:
            return False
        self._updates_now[pid] = updated_ns
        if updated_ns > self._updates.get(pid, updated_ns):
            self._moved.add(pid)
        return pid in self._moved

    def end_of_reading(self) -> None:
        self._updates, self._updates_now = self._updates_now, {}
        self._moved &= self._updates.keys()
