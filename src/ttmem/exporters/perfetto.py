"""A Perfetto trace: counters for each device and kind of memory, and for its sensors, ops and phases as slices, failed
allocations, marks, and a heap profile for each kind of memory.

The file is a sequence of packets, so it can be written to a pipe. Times are those of the events, in nanoseconds
since 1970; clocks are declared so that trace_processor accepts them as they are. Heap profiles are dated in
MONOTONIC_COARSE, and trace_processor ignores them without a word unless a clock snapshot maps that clock too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import BinaryIO, NamedTuple

from ttmem.exporters.events import Operation, operations
from ttmem.exporters.profiles import CallFrame, Stack, frames, in_use
from ttmem.exporters.protobuf import field
from ttmem.exporters.request import ExportRequest
from ttmem.feeds.recorded_telemetry import SensorRow
from ttmem.recording import RecordedProcess, Totals
from ttmem.snapshots import Device

_SEQUENCE = field(10, 1)  # trusted_packet_sequence_id
_BEGIN, _END, _INSTANT, _COUNTER = 1, 2, 3, 4
_BYTES = 3  # CounterDescriptor.unit
_REALTIME, _MONOTONIC_COARSE, _BOOTTIME = 1, 4, 6
_KINDS = ("dram", "l1", "l1_small", "trace", "cb", "l1_used")
_UNITS = {
    "temperature_c": "°C",
    "power_w": "W",
    "current_a": "A",
    "voltage_mv": "mV",
    "aiclk_mhz": "MHz",
    "axiclk_mhz": "MHz",
    "arcclk_mhz": "MHz",
    "fan_rpm": "rpm",
    "heartbeat": "beats",
}


def write_trace(request: ExportRequest, out: BinaryIO) -> None:
    shown, end = request.live(request.at), request.live(request.last)
    trace = _Trace(end.devices)
    out.write(_clocks(request.recording.time_at(request.first.position)))
    for stretch in request.stretches():
        for totals in stretch.totals():
            out.writelines(trace.totals(totals))
    for sample in request.samples():
        out.writelines(trace.sample(*sample))
    for row in request.sensors():
        out.writelines(trace.sensors(row))
    for one in operations(request.batches()):
        out.writelines(trace.operation(one))
    for marker in request.markers():
        if marker.kind == "mark":
            out.writelines(trace.mark(marker.time_ns, marker.text))
    out.writelines(trace.close(end.time_ns))
    out.write(_heap_profiles({one.time_ns: in_use(one) for one in (shown, end)}))


def _packet(*fields: bytes) -> bytes:
    return field(1, b"".join(fields) + _SEQUENCE)


def _clocks(time_ns: int) -> bytes:
    """All clocks show the time of the events."""
    each = b"".join(
        field(1, field(1, clock) + field(2, time_ns))
        for clock in (_REALTIME, _MONOTONIC_COARSE, _BOOTTIME)
    )
    return _packet(field(8, time_ns), field(6, each))


class _Trace:
    """Turns what happened into packets."""

    def __init__(self, devices: Iterable[Device]) -> None:
        self._tracks: dict[tuple[object, ...], int] = {}
        self._devices = {device.unique_id: device for device in devices}
        self._last: dict[tuple[str, int], int] = {}  # counter values, by device and kind
        self._by_events: set[str] = set()  # devices on which events have allocated something
        self._phases: dict[int, RecordedProcess] = {}  # processes in a phase, by serial number

    def _track(self, *key: object) -> tuple[int, bool]:
        """The id of a track, and whether it is new: its descriptor precedes its first event."""
        known = self._tracks.get(key)
        if known is not None:
            return known, False
        self._tracks[key] = len(self._tracks) + 1
        return self._tracks[key], True

    # -- counters ----------------------------------------------------------------------------------------

    def totals(self, now: Totals) -> Iterator[bytes]:
        """The counters that have changed."""
        values = (*now.amounts, now.amounts.l1_used)
        self._by_events |= {now.device} if now.amounts.all else set()
        yield from self._amounts(now.device, now.time_ns, values)

    def sample(self, device: str, time_ns: int, values: tuple[int, ...]) -> Iterator[bytes]:
        """The counters of a device that no event is about: only counters know its processes."""
        if device not in self._by_events:
            yield from self._amounts(device, time_ns, values)

    def _amounts(self, device: str, time_ns: int, values: tuple[int, ...]) -> Iterator[bytes]:
        for kind, value in enumerate(values):
            key = (device, kind)
            if self._last.get(key) != value:
                self._last[key] = value
                track, is_new = self._track("counter", device, kind)
                if is_new:
                    unit = field(3, _BYTES)
                    yield from self._counter_track(device, kind, _KINDS[kind], unit, track)
                event = field(9, _COUNTER) + field(11, track) + field(30, value)
                yield _packet(field(8, time_ns), field(11, event))

    def sensors(self, row: SensorRow) -> Iterator[bytes]:
        """The known values of one chip."""
        chip = row.device or row.card.pci or f"/dev/tenstorrent/{row.card.number}"
        for rank, (name, unit) in enumerate(_UNITS.items(), len(_KINDS)):
            value = getattr(row.card.telemetry, name)
            if value is not None:
                track, is_new = self._track("sensor", chip, name)
                if is_new:
                    board, measure = row.card.board, field(6, unit)
                    yield from self._counter_track(chip, rank, name, measure, track, board)
                event = field(9, _COUNTER) + field(11, track) + field(44, float(value))
                yield _packet(field(8, row.time_ns), field(11, event))

    def _counter_track(
        self,
        unique_id: str,
        rank: int,
        name: str,
        unit: bytes,
        track: int,
        board: str | None = None,
    ) -> Iterator[bytes]:
        parent, is_new = self._track("device", unique_id)
        if is_new:
            device = self._devices.get(unique_id)
            board = (device.board or device.arch if device else None) or board or "device"
            yield _packet(field(60, field(1, parent) + field(2, f"{board} {unique_id}")))
        shown = field(2, name) + field(12, rank) + field(8, unit)  # by rank on screen
        yield _packet(field(60, field(1, track) + field(5, parent) + shown))

    # -- slices ------------------------------------------------------------------------------------------

    def operation(self, one: Operation) -> Iterator[bytes]:
        """The op as a slice, with the phases and failures among its events."""
        if own := one.own:
            phase = next((row.phase for row in own if row.phase), None)
            notes = _notes(site=one.site, phase=phase, device=own[0].device)
            name, began = field(23, one.title) + notes, own[0].time_ns
            yield from self._slice(one.process, "ops", _BEGIN, began, name)
            yield from self._slice(one.process, "ops", _END, max(began, own[-1].time_ns))
        for row in one.rows:
            if row.event == "phase_entered":
                yield from self._phase(one.process, row.time_ns, row.op)
            elif row.event == "allocation_failed":
                size = field(4, field(10, "requested") + field(3, row.requested or 0))
                notes = _notes(op=row.op, site=row.site, device=row.device)
                name = field(23, f"allocation failed: {row.memory or 'memory'}") + size + notes
                yield from self._slice(one.process, "failures", _INSTANT, row.time_ns, name)

    def _phase(self, process: RecordedProcess, time_ns: int, name: str | None) -> Iterator[bytes]:
        """A phase lasts until the next one is entered; without a name, the outermost phase was left."""
        if self._phases.pop(process.serial, None) is not None:
            yield from self._slice(process, "phases", _END, time_ns)
        if name:
            self._phases[process.serial] = process
            yield from self._slice(process, "phases", _BEGIN, time_ns, field(23, name))

    def _slice(
        self, process: RecordedProcess, what: str, kind: int, time_ns: int, more: bytes = b""
    ) -> Iterator[bytes]:
        track, is_new = self._track(what, process.serial)
        if is_new:
            parent, is_first = self._track("process", process.serial)
            if is_first:
                name = process.command or f"pid {process.pid}"
                described = field(1, process.pid) + field(6, name)
                yield _packet(field(60, field(1, parent) + field(3, described)))
            yield _packet(field(60, field(1, track) + field(5, parent) + field(2, what)))
        yield _packet(field(8, time_ns), field(11, field(9, kind) + field(11, track) + more))

    def mark(self, time_ns: int, text: str) -> Iterator[bytes]:
        """An instant that a user has marked."""
        track, is_new = self._track("marks")
        if is_new:
            yield _packet(field(60, field(1, track) + field(2, "marks")))
        event = field(9, _INSTANT) + field(11, track) + field(23, text)
        yield _packet(field(8, time_ns), field(11, event))

    def close(self, time_ns: int) -> Iterator[bytes]:
        """Ends the phases that are still open."""
        for process in list(self._phases.values()):
            yield from self._phase(process, time_ns, None)


def _notes(**texts: str | None) -> bytes:
    """Debug annotations."""
    return b"".join(
        field(4, field(10, name) + field(6, text)) for name, text in texts.items() if text
    )


class _Interned(NamedTuple):
    strings: dict[str, int]
    mappings: dict[str, int]
    frames: dict[tuple[CallFrame, str], int]
    stacks: dict[tuple[int, ...], int]


_Sums = tuple[int, int]  # count, bytes
_Heaps = dict[tuple[int, str], dict[int, _Sums]]  # by process and kind of memory, then by stack


def _heap_profiles(live: Mapping[int, Mapping[Stack, _Sums]]) -> bytes:
    """One heap for each process and kind of memory, at each of these times: what was alive then.

    trace_processor compares a stack with the same one of the dump before, whatever the heap: stacks of different kinds
    of memory must differ, so the mapping of their frames is the kind of memory.
    """
    names = _Interned({}, {}, {}, {})
    dumps: list[bytes] = []
    before: _Heaps = {}
    allocated: _Heaps = {}
    for time_ns, stacks in sorted(live.items()):
        now = _heaps(names, stacks)
        for heap in before.keys() | now.keys():
            was, known = before.get(heap, {}), allocated.setdefault(heap, {})
            samples = []
            for stack, held in {**dict.fromkeys(was, (0, 0)), **now.get(heap, {})}.items():
                # The format counts what was allocated and freed so far: of both, the least that leads to `held`.
                sums = zip(known.get(stack, (0, 0)), was.get(stack, (0, 0)), held, strict=True)
                count, size = (so_far + max(0, one - old) for so_far, old, one in sums)
                known[stack] = count, size
                freed = field(3, size - held[1]) + field(6, count - held[0])
                samples.append(field(2, field(1, stack) + field(2, size) + field(5, count) + freed))
            pid, memory = heap
            described = field(1, pid) + b"".join(samples) + field(9, time_ns) + field(11, memory)
            dumps.append(field(5, described))
        before = now
    return _packet(field(8, min(live)), field(37, b"".join((*_tables(names), *dumps))))


def _heaps(names: _Interned, live: Mapping[Stack, _Sums]) -> _Heaps:
    heaps: _Heaps = {}
    for stack, (count, held) in live.items():
        found = reversed(frames(stack.site))
        path = tuple(_interned_frame(names, frame, stack.memory) for frame in found)
        number = names.stacks.setdefault(path, len(names.stacks) + 1)
        heap = heaps.setdefault((stack.pid, stack.memory), {})  # each stack once
        known = heap.get(number, (0, 0))
        heap[number] = (known[0] + count, known[1] + held)
    return heaps


def _tables(names: _Interned) -> Iterator[bytes]:
    for text, number in names.strings.items():
        yield field(1, field(1, number) + field(2, text.encode()))
    for (frame, memory), number in names.frames.items():
        function, mapping = names.strings[frame.text], names.mappings[memory]
        yield field(2, field(1, number) + field(2, function) + field(3, mapping))
    for path, number in names.stacks.items():
        yield field(3, field(1, number) + b"".join(field(2, frame) for frame in path))
    for memory, number in names.mappings.items():
        yield field(4, field(1, number) + field(7, names.strings[memory]))


def _interned_frame(names: _Interned, frame: CallFrame, memory: str) -> int:
    for text in (frame.text, memory):
        names.strings.setdefault(text, len(names.strings) + 1)
    names.mappings.setdefault(memory, len(names.mappings) + 1)
    return names.frames.setdefault((frame, memory), len(names.frames) + 1)
