"""From the slots of a region to what its processes hold."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from itertools import repeat
from operator import itemgetter, le
from typing import Any, NamedTuple

from ttmem.events import Counters, Owner, ProcessSample, Remark
from ttmem.events.device import LARGEST
from ttmem.events.samples import in_use, total
from ttmem.sources.shared_memory.findings import owner_remark
from ttmem.sources.shared_memory.holders import Holders, RegionKey
from ttmem.sources.shared_memory.layout import Slot
from ttmem.sources.shared_memory.lives import FIRST_WALL_CLOCK_NS, Life, Lives
from ttmem.sources.shared_memory.moving import Moving
from ttmem.sources.shared_memory.owners import Claim, Verdict, judge
from ttmem.sources.shared_memory.printable import printable

_RELEASING = -1
# Named tuples, made without their constructors' detour: a full machine has 2,048 slots.
_counters = partial(tuple.__new__, Counters)
_process_sample = partial(tuple.__new__, ProcessSample)


_since_ns = itemgetter(Life._fields.index("since_ns"))
_start_time_ns = itemgetter(Life._fields.index("start_time_ns"))


class Found(NamedTuple):
    """What the slots of a region say, and the sum over the processes that count."""

    processes: tuple[ProcessSample, ...]
    in_use: Counters
    remarks: list[Remark]


class SlotReader:
    """Reads the slots of one region, time after time."""

    def __init__(self) -> None:
        self._moving = Moving()

    def read(
        self, slots: Sequence[Slot], region: RegionKey, lives: Lives, holders: Holders
    ) -> Found:
        plain, held, odd = _divided(slots, lives, holders)
        samples = _plain_samples(plain, lives)
        remarks: list[Remark] = []
        if odd:
            found = {sample.pid: sample for sample in samples}
            for slot in odd:
                self._add(slot, found, remarks, lambda claim: judge(claim, region, lives, holders))
            samples = tuple(found.values())
            held = in_use(samples)
            remarks += [owner_remark(each) for each in samples if each.owner is not Owner.LIVE]
        self._moving.end_of_reading()
        return Found(samples, held, remarks)

    def _add(
        self,
        slot: Slot,
        found: dict[int, ProcessSample],
        remarks: list[Remark],
        judged: Callable[[Claim], Verdict],
    ) -> None:
        if slot[0] == _RELEASING:
            return
        if not _is_possible(slot):
            remarks.append(_impossible(slot))
            return
        claim = Claim(slot[0], _text(slot[7]), _on_wall_clock(slot[6]))
        owner, pid, started_ns, container_pid = judged(claim)
        if owner is Owner.DEAD and self._moving.has_moved(pid, claim.updated_ns):
            owner = Owner.ELSEWHERE
        sample = ProcessSample(
            pid,
            started_ns,
            claim.name,
            owner,
            Counters(*slot[1:6]),
            claim.updated_ns,
            container_pid,
        )
        if pid in found:
            remarks.append(_twice(sample))
            sample = _merged(found[pid], sample)
        found[pid] = sample


# The fields of slots, each for all of them: a third of the time that a loop over the slots takes.
_Columns = tuple[tuple[Any, ...], ...]


def _columns(slots: Sequence[Slot]) -> _Columns:
    return tuple(zip(*slots, strict=True)) or ((),) * 8


def _divided(
    slots: Sequence[Slot], lives: Lives, holders: Holders
) -> tuple[_Columns, Counters, Sequence[Slot]]:
    """(those of live processes of this host, with nothing to explain; their sum; the others)."""
    plain, odd = _columns(slots), list[Slot]()
    inside = holders.in_containers
    sinces = map(_since_ns, map(lives.__getitem__, plain[0]))
    if not (inside.keys().isdisjoint(plain[0]) and all(map(le, sinces, plain[6]))):
        odd = [s for s in slots if s[0] in inside or lives[s[0]].since_ns > s[6]]
        others = set(map(id, odd))
        plain = _columns([slot for slot in slots if id(slot) not in others])
    held = _counters(map(sum, plain[1:6]))
    # No counter is negative: where the sums are possible, so is each of them.
    if len(set(plain[0])) < len(plain[0]) or max(held) >= LARGEST:
        return _columns(()), Counters(), slots
    return plain, held, odd


def _plain_samples(plain: _Columns, lives: Lives) -> tuple[ProcessSample, ...]:
    pids, dram, l1, l1_small, trace, cb, updates, names = plain
    counters = map(_counters, zip(dram, l1, l1_small, trace, cb, strict=True))
    starts = map(_start_time_ns, map(lives.__getitem__, pids))
    live, nowhere_else = repeat(Owner.LIVE), repeat(None)
    columns = zip(
        pids, starts, map(_text, names), live, counters, updates, nowhere_else, strict=False
    )
    return tuple(map(_process_sample, columns))


def _is_possible(slot: Slot) -> bool:
    return slot[0] > 0 and max(slot[1:6]) < LARGEST


def _on_wall_clock(updated_ns: int) -> int:
    """Early layouts stamped with the steady clock; 0 stays 0: never updated."""
    if updated_ns >= FIRST_WALL_CLOCK_NS or not updated_ns:
        return updated_ns
    return updated_ns + time.time_ns() - time.monotonic_ns()


@lru_cache(maxsize=4096)
def _text(raw: bytes) -> str:
    return printable(raw.partition(b"\0")[0])


def _merged(one: ProcessSample, other: ProcessSample) -> ProcessSample:
    """Two slots for one pid: both are its own, or what its dead namesake left is passed over."""
    if one.owner.counts != other.owner.counts:
        return one if one.owner.counts else other
    return one._replace(
        counters=total((one.counters, other.counters)),
        updated_ns=max(one.updated_ns, other.updated_ns),
    )


def _impossible(slot: Slot) -> Remark:
    pid, largest = slot[0], max(slot[1:6])
    text = f"the slot of pid {pid} holds impossible figures (up to {largest} bytes); left out"
    return Remark("impossible", text, pid)


def _twice(sample: ProcessSample) -> Remark:
    return Remark(
        "twice", f"process {sample.pid} has two slots; those that are its own are added", sample.pid
    )
