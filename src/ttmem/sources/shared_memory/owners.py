"""Whose slot it is: alive, dead, a younger process with the same pid, another program, or one in a container."""

from __future__ import annotations

from typing import NamedTuple

from ttmem.events import Owner
from ttmem.sources.shared_memory.holders import Holders, process_file
from ttmem.sources.shared_memory.lives import Lives
from ttmem.text import printable


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


def judge(
    claim: Claim, region: tuple[int, int], uid: int | None, lives: Lives, holders: Holders
) -> Verdict:
    """Whose slot it is. A file speaks for its owner's processes; `uid` is that owner, None: anybody's."""
    verdict = _meant(claim, region, lives, holders)
    theirs = lives[verdict.pid].uid
    if verdict.owner is not Owner.LIVE or uid is None or theirs == uid:
        return verdict
    return verdict._replace(owner=Owner.ROOT if theirs == 0 else Owner.UNVERIFIED)


def _meant(claim: Claim, region: tuple[int, int], lives: Lives, holders: Holders) -> Verdict:
    """A process of this host first; then a container's, if only one can be meant."""
    pid = claim.pid
    here = lives.fits(pid, claim.updated_ns)
    inside = holders.in_containers.get(pid, ())
    if inside and not (here and holders.maps(pid, region)):
        verdict = _in_container(claim, region, inside, here, lives, holders)
        if verdict is not None:
            return verdict
    life = lives[pid]
    if here and not holders.maps(pid, region) and lives.has_left(pid, region):
        return Verdict(Owner.REPLACED, pid, None)
    if here or (life.alive and _is_named(claim, pid, region, lives, holders)):
        return Verdict(Owner.LIVE, pid, life.start_time_ns)
    return Verdict(Owner.REUSED if life.alive else Owner.DEAD, pid, None)


def _is_named(
    claim: Claim, pid: int, region: tuple[int, int], lives: Lives, holders: Holders
) -> bool:
    """Is it the one that is meant, although it is younger than the update? A clock may have been set."""
    if lives.maps(pid, region):
        return True
    name = holders.name(pid) or printable(process_file(pid, "comm").strip())
    return name == claim.name and not lives.has_left(pid, region)


def _in_container(
    claim: Claim,
    region: tuple[int, int],
    inside: tuple[int, ...],
    here: bool,
    lives: Lives,
    holders: Holders,
) -> Verdict | None:
    """The one that maps the region; where maps cannot be read, the one that fits by name."""
    fitting = [
        pid
        for pid in inside
        if lives.fits(pid, claim.updated_ns)
        or (lives[pid].alive and _is_named(claim, pid, region, lives, holders))
    ]
    mapping = [pid for pid in fitting if holders.maps(pid, region)]
    named = [pid for pid in fitting if holders.name(pid) == claim.name]
    if not mapping and here and (not named or holders.name(claim.pid) == claim.name):
        return None
    chosen = mapping or named
    if len(chosen) == 1:
        return Verdict(Owner.LIVE, chosen[0], lives[chosen[0]].start_time_ns, claim.pid)
    return Verdict(Owner.ELSEWHERE, claim.pid, None, claim.pid) if chosen else None
