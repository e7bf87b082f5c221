"""From the slots of a counter file to what its processes hold, and which process each slot belongs to.

Nearly all slots belong to live processes of this host. A full machine has 2,048 of them: handled column by column, they
take a third of the time of a loop.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import repeat
from operator import le
from typing import Any

from ttmem.clock import now_ns
from ttmem.events import Amounts, Owner, ProcessSample, Remark
from ttmem.events.device import LARGEST
from ttmem.events.samples import in_use
from ttmem.fast_dataclasses import NamedTuple
from ttmem.procfs import comm
from ttmem.sources.containers import Container
from ttmem.sources.counters.layout import PROCESSES, CounterRegion, Slot
from ttmem.sources.counters.proc_scan import ProcScan, RegionKey
from ttmem.sources.counters.process_states import FIRST_WALL_CLOCK_NS, ProcessState, ProcessStates
from ttmem.sources.counters.remarks import owner_remark
from ttmem.text import printable


class SlotJudge(NamedTuple):
    """Which processes the slots of one file belong to. Each slot is a sample with the pid and name it was found with.

    A file is believed only about processes of its owner, `uid` (None: of anybody), and one inside a container only
    about processes there.
    """

    region: RegionKey
    uid: int | None
    states: ProcessStates
    scan: ProcScan
    container: Container | None = None

    def judged(self, said: ProcessSample) -> ProcessSample:
        """With its owner, and with pid and start time as on this host."""
        found = self._meant(said) if self.container is None else self._meant_inside(said)
        theirs = self.states[found.pid].uid
        if found.owner is not Owner.LIVE or self.uid is None or theirs == self.uid:
            return found
        return found._replace(owner=Owner.ROOT if theirs == 0 else Owner.UNVERIFIED)

    def _meant(self, said: ProcessSample) -> ProcessSample:
        """Prefers a process of this host to one in a container, which must be unambiguous."""
        pid = said.pid
        here, maps = self.states.fits(pid, said.updated_ns), self.scan.maps(pid, self.region)
        inside = self.scan.in_containers.get(pid, ())
        if inside and not (here and maps):
            found = self._in_container(said, inside, here)
            if found is not None:
                return found
        if here and not maps and self.states.has_left(pid, self.region):
            return said._replace(owner=Owner.REPLACED)
        if self._may_be(pid, said):
            return self._live(pid, said)
        return said._replace(owner=Owner.REUSED if self.states[pid].alive else Owner.DEAD)

    def _meant_inside(self, said: ProcessSample) -> ProcessSample:
        """Several containers may share a /dev/shm and each have a process of that number."""
        assert self.container is not None
        alive = [pid for pid in self.container.known_as(said.pid) if self._may_be(pid, said)]
        mapping = [
            pid
            for pid in alive
            if self.scan.maps(pid, self.region) or self.states.maps(pid, self.region) is not False
        ]
        if len(mapping) == 1:
            (pid,) = mapping
            return self._live(pid, said, None if pid == said.pid else said.pid)
        if mapping:
            return said._replace(owner=Owner.ELSEWHERE, container_pid=said.pid)
        return said._replace(owner=Owner.REPLACED if alive else Owner.DEAD)

    def _in_container(
        self, said: ProcessSample, inside: tuple[int, ...], here: bool
    ) -> ProcessSample | None:
        """The one that maps the file, or that has the right name if maps are hidden."""
        fitting = [pid for pid in inside if self._may_be(pid, said)]
        mapping = [pid for pid in fitting if self.scan.maps(pid, self.region)]
        named = [pid for pid in fitting if self.scan.name(pid) == said.name]
        if not mapping and here and (not named or self.scan.name(said.pid) == said.name):
            return None
        chosen = mapping or named
        if len(chosen) == 1:
            return self._live(chosen[0], said, said.pid)
        return said._replace(owner=Owner.ELSEWHERE, container_pid=said.pid) if chosen else None

    def _live(
        self, pid: int, said: ProcessSample, container_pid: int | None = None
    ) -> ProcessSample:
        started_ns = self.states[pid].start_time_ns
        return said._replace(
            owner=Owner.LIVE, pid=pid, start_time_ns=started_ns, container_pid=container_pid
        )

    def _may_be(self, pid: int, said: ProcessSample) -> bool:
        """Whether it is alive and wrote that, though it is younger than the update: the clock may have been set."""
        if self.states.fits(pid, said.updated_ns):
            return True
        if not self.states[pid].alive:
            return False
        if self.states.maps(pid, self.region):
            return True
        name = self.scan.name(pid) or printable(comm(pid))
        return name == said.name and not self.states.has_left(pid, self.region)


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


_RELEASING = -1


class Found(NamedTuple):
    """`in_use` is the sum over the processes that count."""

    processes: tuple[ProcessSample, ...]
    in_use: Amounts
    remarks: list[Remark]


class SlotReader:
    """For the slots of one file, in every reading. `container`: where the file is, if not on this host itself."""

    def __init__(self, all_in_sight: bool = False, container: Container | None = None) -> None:
        self._moving = HiddenWriters(all_in_sight or container is not None)
        self._container = container
        self._names: tuple[bytes, ...] = ()
        self._texts: tuple[str, ...] = ()

    def read(
        self,
        slots: Sequence[Slot],
        region: RegionKey,
        states: ProcessStates,
        scan: ProcScan,
        uid: int | None = None,
    ) -> Found:
        """`uid` is the owner of the file; None accepts processes of any user."""
        plain, held, odd = (
            divided(slots, region, uid, states, scan)
            if self._container is None
            else (_columns((), states), Amounts(), slots)
        )
        samples = plain_samples(plain, self._in_text(plain[7]))
        remarks: list[Remark] = []
        if odd:
            found = {sample.pid: sample for sample in samples}
            judge = SlotJudge(region, uid, states, scan, self._container)
            for slot in odd:
                self._add(slot, found, remarks, judge)
            samples = tuple(found.values())
            held = in_use(samples)
            remarks += [
                owner_remark(each, uid, states[each.pid].uid)
                for each in samples
                if each.owner is not Owner.LIVE
            ]
        self._moving.end_of_reading()
        return Found(samples, held, remarks)

    def _in_text(self, names: tuple[bytes, ...]) -> tuple[str, ...]:
        """Names hardly ever change, and comparing them takes a fifth of the time of looking each one up."""
        if names != self._names:
            self._names, self._texts = names, tuple(map(_text, names))
        return self._texts

    def _add(
        self,
        slot: Slot,
        found: dict[int, ProcessSample],
        remarks: list[Remark],
        judge: SlotJudge,
    ) -> None:
        if slot[0] == _RELEASING:
            return
        pid, *counters, updated, name = slot
        largest = max(counters)
        if pid <= 0 or largest >= LARGEST:
            text = (
                f"the slot of pid {pid} holds impossible figures (up to {largest} bytes); left out"
            )
            remarks.append(Remark("impossible", text, pid))
            return
        counted = Amounts(*counters)
        said = ProcessSample(pid, None, _text(name), Owner.DEAD, counted, _on_wall_clock(updated))
        sample = judge.judged(said)
        dead = sample.owner in (Owner.DEAD, Owner.REPLACED)
        if dead and self._moving.has_moved(sample.pid, sample.updated_ns):
            sample = sample._replace(owner=Owner.ELSEWHERE)
        if sample.pid in found:
            text = f"process {sample.pid} has two slots; those that are its own are added"
            remarks.append(Remark("twice", text, sample.pid))
            sample = _merged(found[sample.pid], sample)
        found[sample.pid] = sample


def opened_only(
    listed: Iterable[ProcessSample],
    region: CounterRegion,
    key: RegionKey,
    uid: int | None,
    states: ProcessStates,
    scan: ProcScan,
) -> tuple[ProcessSample, ...]:
    """Processes that have opened the device and hold nothing yet: their first allocation takes a slot.

    Only where nothing else can be the reason for the missing slot; `silent_mappings` reports the others. `uid` is the
    owner of the file.
    """
    mapping = scan.mapped_by.get(key)
    if not mapping or len(region.slots) >= PROCESSES:
        return ()
    found = {each.pid: each.owner for each in listed}
    if Owner.ELSEWHERE in found.values():  # the slot may be that of any of them
        return ()
    samples = []
    for pid in sorted(pid for pid in mapping if pid not in found or found[pid].left):
        process, theirs = scan.by_pid[pid], states[pid].uid
        if (
            process.tracking_disabled is False
            and any(each.writable for each in process.mappings if each.key == key)
            and theirs in (uid, 0)
            and states.goes_on(pid, process.start_time_ns)
            and states.maps(pid, key)
        ):
            owner = Owner.LIVE if theirs == uid else Owner.ROOT
            inner = next((at for at, pids in scan.in_containers.items() if pid in pids), None)
            samples.append(
                ProcessSample(pid, process.start_time_ns, process.name, owner, Amounts(), 0, inner)
            )
    return tuple(samples)


def _on_wall_clock(updated_ns: int) -> int:
    """Early layouts use the monotonic clock; 0 means never updated."""
    if updated_ns >= FIRST_WALL_CLOCK_NS or not updated_ns:
        return updated_ns
    return updated_ns + now_ns() - time.monotonic_ns()


@lru_cache(maxsize=4096)
def _text(raw: bytes) -> str:
    return printable(raw.partition(b"\0")[0])


def _merged(one: ProcessSample, other: ProcessSample) -> ProcessSample:
    """Two slots with one pid: both are its own, or one was left by a dead process with the same pid."""
    if one.owner.counts != other.owner.counts:
        return one if one.owner.counts else other
    return one._replace(
        counters=Amounts.total((one.counters, other.counters)),
        updated_ns=max(one.updated_ns, other.updated_ns),
    )


# A column for each field of the slots, then for each field of the states of their processes.
Columns = tuple[tuple[Any, ...], ...]
_FIELDS = 8 + len(ProcessState._fields)
# Creates named tuples without the detour through their constructors.
_new: Callable[[type, Iterable[Any]], Any] = tuple.__new__


def _columns(slots: Sequence[Slot], states: ProcessStates) -> Columns:
    if not slots:
        return ((),) * _FIELDS
    columns = tuple(zip(*slots, strict=True))
    return (*columns, *zip(*map(states.__getitem__, columns[0]), strict=True))


def divided(
    slots: Sequence[Slot],
    region: RegionKey,
    uid: int | None,
    states: ProcessStates,
    scan: ProcScan,
) -> tuple[Columns, Amounts, Sequence[Slot]]:
    """(slots of live processes of this host that need no further check; their sum; the other slots)."""
    inside = scan.in_containers
    plain = _columns(slots, states)
    odd: Sequence[Slot] = ()
    pids, *_, updates, _, _, _, since, uids = plain
    unseen = set(pids) - scan.mapped_by.get(region, frozenset())
    explain = states.have_left(unseen, region)
    explain |= inside.keys() & set(pids)
    if uid is not None and uids.count(uid) < len(uids):
        explain |= {pid for pid in pids if states[pid].uid != uid}
    if explain or not all(map(le, since, updates)):
        odd = [slot for slot in slots if slot[0] in explain or states[slot[0]].since_ns > slot[6]]
        others = set(map(id, odd))
        plain = _columns([slot for slot in slots if id(slot) not in others], states)
        pids = plain[0]
    held = Amounts(*map(sum, plain[1:6]))
    # No counter is negative: where the sums are possible, so is each of them.
    impossible = max(held) >= LARGEST and max(map(max, plain[1:6])) >= LARGEST
    if impossible or len(set(pids)) < len(pids):
        return _columns((), states), Amounts(), slots
    return plain, held, odd


def plain_samples(plain: Columns, texts: tuple[str, ...]) -> tuple[ProcessSample, ...]:
    pids, dram, l1, l1_small, trace, cb, updates, _, _, starts, _, _ = plain
    counters = map(_new, repeat(Amounts), zip(dram, l1, l1_small, trace, cb, strict=True))
    live, nowhere_else = repeat(Owner.LIVE), repeat(None)
    nothing = repeat(None)  # of kernels
    columns = zip(pids, starts, texts, live, counters, updates, nowhere_else, nothing, strict=False)
    return tuple(map(_new, repeat(ProcessSample), columns))
