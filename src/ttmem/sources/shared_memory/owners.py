"""Whose slot it is: alive, dead, a younger process with the same pid, or one in a container."""

from __future__ import annotations

from typing import NamedTuple

from ttmem.events import Owner
from ttmem.process_identity import is_alive, start_time_error_ns, start_time_ns
from ttmem.sources.shared_memory.holders import Holders

# The kernel counts start times in hundredths of a second.
_TICK_NS = 10_000_000


class Claim(NamedTuple):
    """Who a slot says that it belongs to; `updated_ns` is wall clock, 0 if it was never updated."""

    pid: int
    name: str
    updated_ns: int


class Verdict(NamedTuple):
    """`pid` is the host's number; `container_pid` the published one, where that is another."""

    owner: Owner
    pid: int
    start_time_ns: int | None
    container_pid: int | None = None


class Lives:
    """Asks the kernel once per process and reading, however many slots it has."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[bool, int | None]] = {}
        self._error_ns = start_time_error_ns()

    def of(self, pid: int) -> tuple[bool, int | None]:
        """(alive, start time); somebody else's process may be alive with no known start."""
        known = self._known.get(pid)
        if known is None:
            started = start_time_ns(pid)
            known = (started is not None or is_alive(pid, None), started)
            self._known[pid] = known
        return known

    def fits(self, pid: int, updated_ns: int) -> bool:
        """Alive, and old enough to have written that update."""
        alive, started = self.of(pid)
        if not alive or started is None or not updated_ns:
            return alive
        return started + self._error_ns <= updated_ns + _TICK_NS


def judge(claim: Claim, region: tuple[int, int], lives: Lives, holders: Holders) -> Verdict:
    """A process of this host first; then a container's, if only one can be meant."""
    pid = claim.pid
    here = lives.fits(pid, claim.updated_ns)
    inside = holders.in_containers.get(pid, ())
    if inside and not (here and holders.maps(pid, region)):
        verdict = _in_container(claim, region, inside, here, lives, holders)
        if verdict is not None:
            return verdict
    alive, started = lives.of(pid)
    if here:
        return Verdict(Owner.LIVE, pid, started)
    return Verdict(Owner.REUSED if alive else Owner.DEAD, pid, None)


def _in_container(
    claim: Claim,
    region: tuple[int, int],
    inside: tuple[int, ...],
    here: bool,
    lives: Lives,
    holders: Holders,
) -> Verdict | None:
    """The one that maps the region; where maps cannot be read, the one that fits by name."""
    fitting = [pid for pid in inside if lives.fits(pid, claim.updated_ns)]
    mapping = [pid for pid in fitting if holders.maps(pid, region)]
    named = [pid for pid in fitting if holders.name(pid) == claim.name]
    if not mapping and here and (not named or holders.name(claim.pid) == claim.name):
        return None
    chosen = mapping or named
    if len(chosen) == 1:
        return Verdict(Owner.LIVE, chosen[0], lives.of(chosen[0])[1], claim.pid)
    return Verdict(Owner.ELSEWHERE, claim.pid, None, claim.pid) if chosen else None
