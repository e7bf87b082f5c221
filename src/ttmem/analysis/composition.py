"""What was alive at a peak: by op, call site, stack and phase, and by what would help against it."""

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
from ttmem.snapshots import Buffer, Device, Question, Snapshot

AROUND = 8192  # records before and after a peak that are searched for the running op
STALE_AFTER = 3  # iterations
NO_ITERATIONS = "the run has neither marks nor a recurring phase, so its iterations are unknown"
KINDS_OF = {
    L1_USED: ("L1", "L1_SMALL"),
    **{name: (name.upper(),) for name in ("dram", "l1", "l1_small", "trace")},
}


class Part(Enum):
    """Why something is allocated, and so what helps against it."""

    CIRCULAR = "circular"  # circular and dataflow buffers of cached programs
    INTERMEDIATE = "intermediate"  # allocated by the op that was running
    PERSISTENT = "persistent"
    STALE = "stale"  # allocated in an iteration, and alive many iterations later
    COUNTED = "counted"  # by a process of which only counters are known


class Holder(NamedTuple):
    """Everything of one kind and part that the same code allocated. None: unknown, or none."""

    kind: str  # DRAM, L1, L1_SMALL, TRACE or CB
    part: Part
    pid: int | None
    op: str | None
    site: str | None  # with stacks: one line per caller below it
    phase: str | None
    number: int  # buffers; for CB, programs; 0 where only counters are known
    bytes: int

    def field(self, name: str) -> object:
        """`site` is the innermost line, `stack` all of them."""
        if name == "site":
            return self.site and self.site.split("\n", 1)[0]
        return self.site if name == "stack" else getattr(self, name)


class ProgramCircularBuffers(NamedTuple):
    """The circular and dataflow buffers of one program. Programs share addresses, so these do not add up."""

    name: str | None
    site: str | None
    bytes: int  # on all its cores
    dataflow: int  # the part of it that is dataflow buffers
    buffers: int


@dataclass(frozen=True, slots=True)
class Composition:
    """What was alive at the peak of one memory of one device; `holders` add up to `bytes`."""

    devices: tuple[Device, ...]  # several if they did the same
    memory: str  # one of MEMORIES
    bytes: int
    capacity: int | None
    position: int
    time_ns: int
    holders: tuple[Holder, ...]  # largest first
    programs: tuple[ProgramCircularBuffers, ...]  # largest first; only for CB and L1 used
    running: tuple[str | None, str | None] | None  # the running op and its call site; None: unknown
    stale_unknown: str | None  # why nothing is classified as stale
    at_least: bool  # more may have been held
    counted: bool  # at a reading of counters, not at an event

    def part(self, part: Part) -> int | None:
        """Bytes of one part; None if it cannot be distinguished from the others."""
        unknown = {Part.STALE: self.stale_unknown is not None, Part.INTERMEDIATE: not self.running}
        if unknown.get(part):
            return None
        return sum(holder.bytes for holder in self.holders if holder.part is part)

    def by(self, *names: str) -> list[Holder]:
        """Holders with the same values in these fields (op, site, phase, pid, part), largest first."""
        return grouped(self.holders, *names)


def grouped(holders: Iterable[Holder], *names: str) -> list[Holder]:
    """Merges holders of the same kind with the same values in these fields; other fields are those of the largest."""
    found: dict[tuple[object, ...], list[Holder]] = defaultdict(list)
    for holder in sorted(holders, key=_largest_first):
        found[(holder.kind, *(holder.field(name) for name in names))].append(holder)
    merged = [
        many[0]._replace(
            number=sum(holder.number for holder in many), bytes=sum(holder.bytes for holder in many)
        )
        for many in found.values()
    ]
    return sorted(merged, key=_largest_first)


def _largest_first(holder: Holder) -> tuple[int, str, str, str]:
    """Equal sizes are ordered by name, so that the same run always gives the same output."""
    return -holder.bytes, holder.kind, holder.site or "", holder.op or ""


def compositions(history: History, *, stale_after: int = STALE_AFTER) -> list[Composition]:
    """For every peak; devices of a mesh that did the same are merged."""
    windows = history.windows()
    found: dict[tuple[object, ...], Composition] = {}
    for peak in history.device_peaks:
        at_peak = composition(history, peak, windows, stale_after)
        same = (at_peak.memory, at_peak.bytes, at_peak.capacity, at_peak.holders, at_peak.programs)
        known = found.get(same)
        found[same] = (
            replace(known, devices=(*known.devices, *at_peak.devices)) if known else at_peak
        )
    return list(found.values())


def composition(
    history: History,
    peak: PeakInstant,
    windows: Windows | None = None,
    stale_after: int = STALE_AFTER,
    pid: int | None = None,
) -> Composition:
    """For one peak. `pid`: only what this process holds."""
    windows = windows or history.windows()
    question = Question(("buffers", "programs"))
    snapshot = history.recording.snapshot(peak.instant, question)
    device = snapshot.device(peak.device)
    if device is None:
        raise LookupError(peak.device)
    running = None if peak.counted else _running(history, peak)
    age = _Age(windows, peak.position, stale_after)
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
    holders = [
        holder._replace(number=number, bytes=held) for holder, (number, held) in sums.items()
    ]
    kinds = KINDS_OF.get(peak.memory, ())
    for process in snapshot.processes if pid is None else ():
        if process.pid in history.sums_only and peak.device in process.devices:
            labelled = process.devices[peak.device].by_label()
            holders += [
                Holder(kind, Part.COUNTED, process.pid, None, None, None, 0, labelled[kind])
                for kind in kinds
                if labelled.get(kind)
            ]
    programs: tuple[ProgramCircularBuffers, ...] = ()
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
        history.is_lower_bound(peak.device),
        peak.counted,
    )


def peaks_of_process(history: History, pid: int) -> dict[tuple[int, str], tuple[Holder, ...]]:
    """What one process held at the peak of each kind of memory, by its own number of the device and the kind."""
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
    """The circular buffers that L1 used includes."""
    if pid is None:
        return device.memory.cb.used
    held = (
        process.devices.get(device.unique_id)
        for process in snapshot.processes
        if process.pid == pid
    )
    return sum(amounts.cb for amounts in held if amounts is not None)


def _programs(
    snapshot: Snapshot, device: str, pid: int | None
) -> tuple[ProgramCircularBuffers, ...]:
    names = {
        (program.pid, program.program): (program.name, program.site)
        for program in snapshot.programs or ()
        if program.device == device
    }
    sums: dict[tuple[int | None, int | None], list[int]] = {}
    for buffer in snapshot.circular_buffers or ():
        if buffer.device == device and not buffer.is_global and pid in (None, buffer.pid):
            all_, dataflow, count = sums.get((buffer.pid, buffer.program), (0, 0, 0))
            sums[buffer.pid, buffer.program] = [
                all_ + buffer.size,
                dataflow + buffer.size * buffer.dataflow,
                count + 1,
            ]
    found = (
        ProgramCircularBuffers(*names.get((owner, program or 0), (None, None)), *figures)
        for (owner, program), figures in sums.items()
    )
    return tuple(
        sorted(found, key=lambda program: (-program.bytes, program.name or "", program.site or ""))
    )


# -- parts ---------------------------------------------------------------------------------------------------


class _Age:
    """Persistent or stale: stale buffers were allocated in an iteration more than `most` iterations ago.

    The iteration of the peak is that of its position: a recording that joins a running process has its past events,
    but all with the time at which the recording started.
    """

    def __init__(self, windows: Windows, position: int, most: int) -> None:
        known = windows.windows if windows.repeats else ()
        self._starts = [window.began_ns for window in known]
        self._oldest = bisect_right([window.first for window in known], position) - most

    def part(self, buffer: Buffer) -> Part:
        began = bisect_right(self._starts, buffer.time_ns)
        return Part.STALE if 0 < began < self._oldest else Part.PERSISTENT


@dataclass(frozen=True, slots=True)
class _Running:
    """The op that ran at the peak, as far as events show: consecutive events with the same op and call site.

    Its own buffers are those it allocated and freed again, and those it allocated since its last dispatch if it
    dispatches another program after the peak. The rest are results. A loop that calls an op repeatedly looks like one
    op, but each call dispatches the same program again. An op that dispatches none, such as `ttnn.empty`, has only
    results.
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
    """None if it is unknown."""
    at = peak.position - 1  # the record that reached the peak
    first, end = max(history.info.first, at - AROUND), min(history.info.end, at + AROUND)
    batches = list(history.recording.batches(first, end))
    tipped = [
        batch
        for batch in batches
        if batch.position <= at < batch.position + len(batch.events) // EVENT_SIZE
    ]
    if not tipped:
        return None
    process = tipped[0].process
    positions, events = list[int](), list[tuple[int, Event]]()
    for batch in batches:
        if batch.process.serial == process.serial:
            for number, fields in enumerate(EVENT.iter_unpack(batch.events)):
                event = Event._make(fields)
                positions.append(batch.position + number)
                events.append((event.time_by(batch.arrived_ns), event))
    here = bisect_right(positions, at) - 1
    device = next((n for n, unique_id in process.devices.items() if unique_id == peak.device), None)
    return _around(events, here, process, device)


def _around(
    events: Sequence[tuple[int, Event]], here: int, process: RecordedProcess, device: int | None
) -> _Running | None:
    """`device`: the process's own number of it. A mesh repeats each event for each of its chips."""
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
        number
        for number in range(start, end)
        if events[number][1].op == Op.PROGRAM_DISPATCH and events[number][1].device == device
    ]
    fresh, freed = LATEST_NS, frozenset[int]()
    if dispatches:
        its = next((number for number in dispatches if number >= here), dispatches[-1])
        if its >= here:
            fresh = events[max([start, *(n + 1 for n in dispatches if n < here)])][0]
        same = [n for n in dispatches if n < its and events[n][1].id == events[its][1].id]
        start = max([start, *(n + 1 for n in same)])
        freed = frozenset(event.id for _, event in events[here:end] if event.op == Op.FREE)
    op, site = (process.strings.get(number) for number in key)
    return _Running(process.pid, (op, site), events[start][0], fresh, freed)


def _named(event: Event) -> tuple[int, int] | None:
    """Op and call site of an event that has them."""
    return (event.name, event.site) if event.name or event.site else None
