"""From the slots of a region to what its processes hold."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import lru_cache

from ttmem.events import Counters, Owner, ProcessSample, Remark
from ttmem.events.device import LARGEST
from ttmem.events.samples import total
from ttmem.sources.shared_memory.holders import Holders, RegionKey
from ttmem.sources.shared_memory.layout import Slot
from ttmem.sources.shared_memory.owners import Claim, Lives, judge
from ttmem.sources.shared_memory.printable import printable

_RELEASING = -1
_STEADY_CLOCK_BELOW_NS = 1 << 58  # nine years: no clock runs that long, and 1979 is long past


@dataclass(slots=True)
class SlotReader:
    """Reads the slots of one region, time after time; it remembers what it cannot see at once."""

    _updates_of_dead: dict[int, int] = field(default_factory=dict)
    _moving: set[int] = field(default_factory=set)

    def read(
        self, slots: Iterable[Slot], region: RegionKey, lives: Lives, holders: Holders
    ) -> tuple[tuple[ProcessSample, ...], list[Remark]]:
        found: dict[tuple[int, Owner], ProcessSample] = {}
        remarks: list[Remark] = []
        dead: dict[int, int] = {}
        for slot in slots:
            pid, dram, l1, l1_small, trace, cb, updated_ns, raw_name = slot
            if pid < 0 or max(dram, l1, l1_small, trace, cb) > LARGEST:
                if pid != _RELEASING:
                    remarks.append(_impossible(slot))
                continue
            if updated_ns < _STEADY_CLOCK_BELOW_NS:
                updated_ns = _on_wall_clock(updated_ns)
            name = _text(raw_name)
            owner, host_pid, started, container_pid = judge(
                Claim(pid, name, updated_ns), region, lives, holders
            )
            if owner is Owner.DEAD:
                dead[pid] = updated_ns
                if self._is_moving(pid, updated_ns):
                    owner = Owner.ELSEWHERE
            sample = ProcessSample(
                host_pid,
                started,
                name,
                owner,
                Counters(dram, l1, l1_small, trace, cb),
                updated_ns,
                container_pid,
            )
            key = (host_pid, owner)
            if key in found:
                remarks.append(_twice(sample))
                sample = _merged(found[key], sample)
            found[key] = sample
        self._updates_of_dead = dead
        self._moving &= dead.keys()
        return tuple(found.values()), remarks

    def _is_moving(self, pid: int, updated_ns: int) -> bool:
        """No such process here, yet its slot is written to: it lives where we cannot see it."""
        if updated_ns > self._updates_of_dead.get(pid, updated_ns):
            self._moving.add(pid)
        return pid in self._moving


def _on_wall_clock(steady_ns: int) -> int:
    """Early layouts stamped with the steady clock; 0 stays 0: never updated."""
    return steady_ns + time.time_ns() - time.monotonic_ns() if steady_ns else 0


@lru_cache(maxsize=4096)
def _text(raw: bytes) -> str:
    return printable(raw.partition(b"\0")[0])


def _merged(one: ProcessSample, other: ProcessSample) -> ProcessSample:
    return replace(
        one,
        counters=total((one.counters, other.counters)),
        updated_ns=max(one.updated_ns, other.updated_ns),
    )


def _impossible(slot: Slot) -> Remark:
    return Remark(
        "impossible",
        f"the slot of pid {slot.pid} holds impossible figures (up to {max(slot[1:6])} bytes); left out",
        slot.pid,
    )


def _twice(sample: ProcessSample) -> Remark:
    return Remark("twice", f"process {sample.pid} has two slots; they are added", sample.pid)
