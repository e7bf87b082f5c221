"""What was alive when the most was held: by op, call site, stack and phase, and split the way people fix it."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple

from ttmem.analysis.history import L1_USED, History, PeakInstant, Windows
from ttmem.clock import LATEST_NS
from ttmem.events import EVENT, EVENT_SIZE, Event, Op
from ttmem.recording import RecordedProcess
from ttmem.snapshots import Buffer, Device, Snapshot

AROUND = 8192  # records before and after a peak in which the running op is sought
STALE_AFTER = 3  # iterations
NO_ITERATIONS = (
    "the run has neither marks nor a phase that comes again, so its iterations are unknown"
)
KINDS_OF = {
    L1_USED: ("L1", "L1_SMALL"),
    **{name: (name.upper(),) for name in ("dram", "l1", "l1_small", "trace")},
}


class Part(Enum):
    """Why something is there, and so what helps against it."""

    CIRCULAR = "circular"  # circular and dataflow buffers of cached programs
    INTERMEDIATE = "intermediate"  # allocated by the op that was running
    PERSISTENT = "persistent"
    STALE = "stale"  # allocated in an iteration, and alive many iterations later


class Holder(NamedTuple):
    """Everything of one kind and part that the same code holds. None: unknown, or none."""

    kind: str  # DRAM, L1, L1_SMALL, TRACE or CB
    part: Part
    pid: int | None
    op: str | None
    site: str | None  # with stacks: one line per caller below it
    phase: str | None
    number: int  # of buffers; of CB, of programs
    bytes: int

    def field(self, name: str) -> object:
        """`site` is the innermost line, `stack` all of them."""
        if name == "site":
            return self.site and self.site.split("\n", 1)[0]
        return self.site if name == "stack" else getattr(self, name)


class ProgramBuffers(NamedTuple):
    """The circular and dataflow buffers of one program. Programs share addresses, so these do not add up."""

    name: str | None
    site: str | None
    bytes: int  # on all its cores
    dataflow: int  # the part of it that dataflow buffers are
    buffers: int


@dataclass(frozen=True, slots=True)
class Composition:
    """The live set at the peak of one memory of one device; `holders` add up to `bytes`."""

    devices: tuple[Device, ...]  # more than one: they did the same
    memory: str  # one of MEMORIES
    bytes: int
    capacity: int | None
    position: int
    time_ns: int
    holders: tuple[Holder, ...]  # largest first
    programs: tuple[ProgramBuffers, ...]  # largest first; of CB and L1 used
    running: tuple[str | None, str | None] | None  # op and call site that ran; None: unknown
    stale_unknown: str | None  # why nothing is called stale

    def part(self, part: Part) -> int | None:
        """Bytes of one part; None if it cannot be told from the others."""
        unknown = {Part.STALE: self.stale_unknown is not None, Part.INTERMEDIATE: not self.running}
        if unknown.get(part):
            return None
        return sum(one.bytes for one in self.holders if one.part is part)

    def by(self, *names: str) -> list[Holder]:
        """Holders with the same values in these fields (op, site, phase, pid, part), largest first."""
        return grouped(self.holders, *names)


def grouped(holders: Iterable[Holder], *names: str) -> list[Holder]:
    """Merged where they have the same kind and these fields; the other fields are those of the largest."""
    found: dict[tuple[object, ...], list[Holder]] = defaultdict(list)
    for one in sorted(holders, key=_largest_first):
        found[(one.kind, *(one.field(name) for name in names))].append(one)
    merged = [
        many[0]._replace(
            number=sum(one.number for one in many), bytes=sum(one.bytes for one in many)
        )
        for many in found.values()
    ]
    return sorted(merged, key=_largest_first)


def _largest_first(holder: Holder) -> tuple[int, str, str, str]:
    """Of equal size by name, so that the same run always reads the same."""
    return -holder.bytes, holder.kind, holder.site or "", holder.op or ""


def compositions(history: History, *, stale_after: int = STALE_AFTER) -> list[Composition]:
    """Of every peak; devices of a mesh that did the same are one."""
    windows = history.windows()
    found: dict[tuple[object, ...], Composition] = {}
    for peak in history.peaks:
        one = composition(history, peak, windows, stale_after)
        same = (one.memory, one.bytes, one.capacity, one.holders, one.programs)
        known = found.get(same)
        found[same] = replace(known, devices=(*known.devices, *one.devices)) if known else one
    return list(found.values())


def composition(
    history: History,
    peak: PeakInstant,
    windows: Windows | None = None,
    stale_after: int = STALE_AFTER,
    pid: int | None = None,
) -> Composition:
    """Of one peak. `pid`: only what this process holds."""
    windows = windows or history.windows()
    snapshot = history.at(peak.position, "buffers", "programs")
    device = snapshot.device(peak.device)
    if device is None:
        raise LookupError(peak.device)
    running = _running(history, peak)
    age = _Age(windows, peak.time_ns, stale_after)
    sums: dict[Holder, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for buffer in snapshot.buffers or ():
        mine = buffer.device == peak.device and pid in (None, buffer.pid)
        if mine and buffer.kind in KINDS_OF.get(peak.memory, ()):
            own = running.part(buffer) if running else None
            part = own or age.part(buffer)
            who = (buffer.pid, buffer.name, buffer.site, buffer.phase)
            holder = Holder(buffer.kind, part, *who, 0, 0)
            number, held = sums[holder]
            sums[holder] = number + 1, held + buffer.held
    holders = [one._replace(number=number, bytes=held) for one, (number, held) in sums.items()]
    programs: tuple[ProgramBuffers, ...] = ()
    if peak.memory in (L1_USED, "cb"):
        programs = _programs(snapshot, peak.device, pid)
        used = _circular(snapshot, device, pid)
        if used:
            holders.append(Holder("CB", Part.CIRCULAR, pid, None, None, None, len(programs), used))
    return Composition(
        (device,),
        peak.memory,
        peak.bytes,
        capacity(device, peak.memory),
        peak.position,
        peak.time_ns,
        tuple(sorted(holders, key=_largest_first)),
        programs,
        running.made_by if running else None,
        None if windows.repeats else NO_ITERATIONS,
    )


def peaks_of_process(history: History, pid: int) -> dict[tuple[int, str], tuple[Holder, ...]]:
    """What one process held at the peak of each kind of memory, by its number of the device and the kind."""
    windows = history.windows()
    numbers = {
        unique_id: number
        for process in history.recording.processes
        if process.pid == pid
        for number, unique_id in process.devices.items()
    }
    return {
        (numbers[peak.device], peak.memory.upper()): composition(
            history, peak, windows, pid=pid
        ).holders
        for peak in history.peaks_of(pid)
        if peak.device in numbers
    }


def capacity(device: Device, memory: str) -> int | None:
    if memory in (L1_USED, "cb"):
        return device.l1_capacity
    found: int | None = getattr(device.memory, memory).capacity
    return found


def _circular(snapshot: Snapshot, device: Device, pid: int | None) -> int:
    """What L1 used includes."""
    if pid is None:
        return device.memory.cb.used
    held = (one.devices.get(device.unique_id) for one in snapshot.processes if one.pid == pid)
    return sum(one.cb for one in held if one is not None)


def _programs(snapshot: Snapshot, device: str, pid: int | None) -> tuple[ProgramBuffers, ...]:
    names = {
        (one.pid, one.program): (one.name, one.site)
        for one in snapshot.programs or ()
        if one.device == device
    }
    sums: dict[tuple[int | None, int | None], list[int]] = {}
    for one in snapshot.circular_buffers or ():
        if one.device == device and not one.is_global and pid in (None, one.pid):
            all_, dataflow, count = sums.get((one.pid, one.program), (0, 0, 0))
            sums[one.pid, one.program] = [
                all_ + one.size,
                dataflow + one.size * one.dataflow,
                count + 1,
            ]
    found = (
        ProgramBuffers(*names.get((owner, program or 0), (None, None)), *figures)
        for (owner, program), figures in sums.items()
    )
    return tuple(sorted(found, key=lambda one: (-one.bytes, one.name or "", one.site or "")))


# -- parts ---------------------------------------------------------------------------------------------------


class _Age:
    """Persistent or stale: stale is what an iteration allocated that is more than `most` iterations ago."""

    def __init__(self, windows: Windows, now_ns: int, most: int) -> None:
        self._starts = [one.began_ns for one in windows.windows] if windows.repeats else []
        self._oldest = bisect_right(self._starts, now_ns) - most

    def part(self, buffer: Buffer) -> Part:
        began = bisect_right(self._starts, buffer.time_ns)
        return Part.STALE if 0 < began < self._oldest else Part.PERSISTENT


@dataclass(frozen=True, slots=True)
class _Running:
    """The op that ran at the peak, as far as events tell: events in a row that name the same op and call site.

    Its own is what it allocated and freed again, and what it allocated since its last dispatch if it dispatches
    another program after the peak. The rest are results: a loop that calls one op again and again looks like one op.
    """

    pid: int | None
    made_by: tuple[str | None, str | None]  # op and call site
    first_ns: int
    fresh_ns: int
    freed: frozenset[int]

    def part(self, buffer: Buffer) -> Part | None:
        same = buffer.pid == self.pid and (buffer.name, buffer.site) == self.made_by
        if not same or buffer.kind == "TRACE" or buffer.time_ns < self.first_ns:
            return None
        own = buffer.time_ns >= self.fresh_ns or buffer.id in self.freed
        return Part.INTERMEDIATE if own else None


def _running(history: History, peak: PeakInstant) -> _Running | None:
    """None if nothing is known of it."""
    at = peak.position - 1  # the record that reached the peak
    first, end = max(history.info.first, at - AROUND), min(history.info.end, at + AROUND)
    batches = list(history.recording.batches(first, end))
    tipped = [
        one for one in batches if one.position <= at < one.position + len(one.events) // EVENT_SIZE
    ]
    if not tipped:
        return None
    process = tipped[0].process
    positions, events = list[int](), list[tuple[int, Event]]()
    for batch in batches:
        if batch.process.serial == process.serial:
            for number, fields in enumerate(EVENT.iter_unpack(batch.events)):
                event = Event._make(fields)
                known = 0 < event.time <= batch.arrived_ns
                positions.append(batch.position + number)
                events.append((event.time if known else batch.arrived_ns, event))
    return _around(events, bisect_right(positions, at) - 1, process)


def _around(
    events: Sequence[tuple[int, Event]], here: int, process: RecordedProcess
) -> _Running | None:
    start = here
    while start > 0 and not _named(events[start][1]):
        start -= 1
    key = _named(events[start][1])
    if not key:
        return None

    def belongs(event: Event) -> bool:
        return _named(event) in (key, None)

    while start > 0 and belongs(events[start - 1][1]):
        start -= 1
    end = here + 1
    while end < len(events) and belongs(events[end][1]):
        end += 1
    dispatches = [
        number for number in range(start, end) if events[number][1].op == Op.PROGRAM_DISPATCH
    ]
    fresh = LATEST_NS
    if dispatches and dispatches[-1] >= here:
        before = [number + 1 for number in dispatches if number < here]
        fresh = events[max([start, *before])][0]
    freed = frozenset(one.id for _, one in events[here:end] if one.op == Op.FREE)
    op, site = (process.strings.get(one) for one in key)
    return _Running(process.pid, (op, site), events[start][0], fresh, freed)


def _named(event: Event) -> tuple[int, int] | None:
    """Op and call site of an event that names one."""
    return (event.name, event.site) if event.name or event.site else None
