"""The tables of a region as plain data. Records with a wrong checksum are left out."""

from __future__ import annotations

from struct import Struct

from ttmem.events import MemoryKind
from ttmem.events.device import DeviceDeclaration
from ttmem.fast_dataclasses import dataclass, replace
from ttmem.probe import _records, layout
from ttmem.probe.layout import LiveType, Section
from ttmem.procfs import user_name
from ttmem.sources.probe.region_file import RegionFile, TooMuch
from ttmem.wire.frames import Rectangle

_TABLE_COUNTS = Struct("<IIII")
_NOT_ALIVE = (LiveType.LEFT_BUFFER, LiveType.LAID_OUT)
_BUFFERS = (LiveType.BUFFER, LiveType.LEFT_BUFFER)
_WHAT = ("buffer", "circular buffers", "dataflow buffers")
_ARCHITECTURES = {2: "wormhole", 3: "blackhole"}  # as the runtime numbers them


@dataclass(frozen=True, slots=True)
class Counter:
    """One device and kind; absolute figures."""

    requested: int
    reserved: int
    allocations: int  # ever
    frees: int  # ever
    peak: int  # of reserved
    peak_ns: int | None
    peak_name: int
    peak_site: int
    peak_capacity: int  # what could be allocated on the device at that time; 0 = unknown
    recent_peak: int  # since peaks were last reset

    @property
    def count(self) -> int:
        """How many are alive."""
        return max(0, self.allocations - self.frees)


@dataclass(frozen=True, slots=True)
class Activity:
    """On one device, since the process started."""

    dispatches: int
    hits: int
    misses: int
    programs_compiled: int
    programs_destroyed: int
    kernels_loaded: int
    kernels_unloaded: int
    traces_captured: int
    traces_replayed: int
    opened: int
    closed: int
    cache_entries: int  # workloads that are in the program cache now


@dataclass(frozen=True, slots=True)
class Failure:
    """An allocation that the runtime refused."""

    time_ns: int
    requested: int | None
    program: int | None
    kind: int
    chips: tuple[int, ...]
    name: int
    site: int
    what: str  # one of `_WHAT`
    message: str


@dataclass(frozen=True, slots=True)
class LiveEntry:
    """A buffer, circular buffer, program or kernel that is alive, or was when its process died."""

    type: LiveType
    id: int
    kind: int
    chips: tuple[int, ...]
    time_ns: int
    requested: int
    reserved: int | None
    address: int
    program: int | None
    cores: int
    number: int
    name: int
    site: int
    phase: int
    flags: int
    layout: int | None  # the runtime's TensorMemoryLayout
    path: int


class RegionTables(RegionFile):
    """Every call reads the file again."""

    def whole_records(self, section: Section, count: int, first: int = 0) -> list[bytes]:
        """The records of a section; empty where the checksum is wrong."""
        data = self.records(section, first, count)
        stride = self.stride(section)
        good = _records.whole_records(data, stride)
        return [
            data[i * stride : (i + 1) * stride] if good[i] else b""
            for i in range(len(data) // stride)
        ]

    def table_counts(self) -> tuple[int, int, int, int]:
        """(devices, sets of devices, core sets, how many of them had no space)."""
        data = self.read(layout.TABLES_AT, _TABLE_COUNTS.size)
        devices, sets, cores, without_space = _TABLE_COUNTS.unpack(data)
        return devices, sets, cores, without_space

    def sets(self) -> list[tuple[int, ...]]:
        """The chips of each set of devices."""
        found = []
        for record in self.whole_records(Section.SETS, self.table_counts()[1]):
            values = layout.SET.unpack(record) if record else (0, 0)
            found.append(tuple(values[3 : 3 + min(values[1], 64)]))
        return found

    def cores(self, first: int, count: int) -> dict[int, list[Rectangle]]:
        """Rectangles of core sets, by number. Sets with more rectangles than a record holds are left out."""
        found = {}
        for i, record in enumerate(self.whole_records(Section.CORES, count - first, first)):
            if record:
                values = layout.CORES.unpack(record)
                flat = values[3 : 3 + 4 * min(values[1], 16)]
                ranges = [
                    (flat[j], flat[j + 1], flat[j + 2], flat[j + 3]) for j in range(0, len(flat), 4)
                ]
                if sum((x1 - x0 + 1) * (y1 - y0 + 1) for x0, y0, x1, y1 in ranges) == values[2]:
                    found[first + i] = ranges
        return found

    def devices(self) -> list[DeviceDeclaration | None]:
        """As the runtime described them, one for each row of `counters`."""
        return [
            _declaration(record) if record else None
            for record in self.whole_records(Section.DEVICES, self.table_counts()[0])
        ]

    def counters(self) -> list[list[Counter]]:
        """Eight counters for each device: five kinds of memory, then `layout.Counted`."""
        data = self.records(Section.COUNTERS, 0, self.table_counts()[0] * layout.KINDS)
        found = list(map(_counter, layout.COUNTER.iter_unpack(data)))
        return [found[i : i + layout.KINDS] for i in range(0, len(found), layout.KINDS)]

    def activity(self) -> list[Activity]:
        """One for each row of `counters`."""
        data = self.records(Section.ACTIVITY, 0, self.table_counts()[0])
        return [Activity(*values) for values in layout.ACTIVITY.iter_unpack(data)]

    def features(self) -> dict[str, bool]:
        """What the probe can observe in this runtime; empty before the first device was opened."""
        data = self.records(Section.FEATURES, 0, self.count(Section.FEATURES))
        return {
            name.split(b"\0")[0].decode("ascii", "replace"): state == 1
            for name, state, _ in layout.FEATURE.iter_unpack(data)
            if state in (1, 2)
        }

    def failures(self) -> list[Failure]:
        """The last failed allocations, oldest first."""
        sets, found = self.sets(), []
        for record in self.whole_records(Section.FAILURES, self.count(Section.FAILURES)):
            if record:
                _, time, requested, program, kind, devices, name, site, code, length, text = (
                    layout.FAILURE.unpack(record)
                )
                found.append(
                    Failure(
                        time,
                        requested or None,
                        program if code else None,
                        kind,
                        _chips_of(devices, sets),
                        name,
                        site,
                        _WHAT[min(code, 2)],
                        text[:length].decode("utf-8", "replace").split("\nbacktrace:")[0],
                    )
                )
        return sorted(found, key=lambda failure: failure.time_ns)

    def failure_count(self) -> int:
        """How many allocations have failed; `failures` has the last of them."""
        return self.word(layout.FAILURES_AT)

    def live(self) -> list[LiveEntry]:
        """What is alive, or was when the process ended."""
        return [entry for entry in self._entries() if entry.type not in _NOT_ALIVE]

    def gone_with_device(self) -> list[LiveEntry]:
        """Buffers that were still allocated when their device was closed."""
        return [
            replace(entry, type=LiveType.BUFFER)
            for entry in self._entries()
            if entry.type is LiveType.LEFT_BUFFER
        ]

    def _entries(self) -> list[LiveEntry]:
        """TooMuch if there are more than a region of its size may have."""
        sets, found, entries = self.sets(), [], 0
        for keys, records in self.pieces(Section.LIVE_KEYS, Section.LIVE):
            for values in layout.LIVE.iter_unpack(_records.whole_live(keys, records)):
                entry = _live(values, sets)
                if entry is not None:
                    found.append(entry)
                    entries += max(1, len(entry.chips))
            if entries > self.most_entries:
                raise TooMuch(
                    f"{self.path} of user {user_name(self.uid)} has more than {self.most_entries:,} live "
                    "buffers, circular buffers and kernels on all chips, the limit for a region of its size: "
                    "it is not counted"
                )
        return found


def _chips_of(named: int, sets: list[tuple[int, ...]]) -> tuple[int, ...]:
    if not named & layout.SET_OF_DEVICES:
        return (named,)
    number = named & ~layout.SET_OF_DEVICES
    return sets[number] if number < len(sets) else ()


def _declaration(record: bytes) -> DeviceDeclaration:
    old = len(record) == layout.DEVICE_1.size
    values = layout.DEVICE_1.unpack(record) if old else layout.DEVICE.unpack(record)
    unique_id, sizes, banks = values[1], values[2:7], values[7:12]
    chip, arch, x, y, l1_per_core, cb_base = values[12:18]
    dram_base, identified = (None, unique_id != 0) if old else values[18:20]
    l1_banks = banks[MemoryKind.L1] or None
    l1_small = sizes[MemoryKind.L1_SMALL]
    capacity = None
    if l1_banks and sizes[MemoryKind.L1]:
        capacity = l1_banks * (sizes[MemoryKind.L1] + l1_small)
    return DeviceDeclaration(
        logical_id=chip,
        unique_id=str(unique_id) if identified else None,
        arch=_ARCHITECTURES.get(arch),
        grid=(x, y) if 0 < x <= 32 and 0 < y <= 32 else None,
        l1_banks=l1_banks,
        l1_per_core=l1_per_core or None,
        l1_total=l1_banks * l1_per_core if l1_banks and l1_per_core else None,
        l1_capacity=capacity,
        l1_bank_size=sizes[MemoryKind.L1] or None,
        l1_small_bank_size=l1_small if l1_banks else None,
        cb_base=cb_base or None,
        dram_banks=banks[MemoryKind.DRAM] or None,
        dram_bank_size=sizes[MemoryKind.DRAM] or None,
        dram_base=dram_base or None,
        trace_bank_size=sizes[MemoryKind.TRACE] if banks[MemoryKind.DRAM] else None,
    )


def _counter(row: tuple[int, ...]) -> Counter:
    """With the peak since the last reset, or the highest before it, which knows its line also if they are equal."""
    recent, earlier = row[4:9], row[9:14]
    requested, reserved, allocations, frees = row[:4]
    peak, time_ns, name, site, capacity = earlier if earlier[0] >= recent[0] else recent
    held = requested, reserved, allocations, frees
    return Counter(*held, peak, time_ns or None, name, site, capacity, recent_peak=recent[0])


def _live(values: tuple[int, ...], sets: list[tuple[int, ...]]) -> LiveEntry | None:
    _, key, time, requested, reserved, address, program, *rest = values
    devices, cores, name, site, phase, number, flags, _thread, kind, tensor, path, _ = rest
    if key >> 56 not in list(LiveType):
        return None
    live_type = LiveType(key >> 56)
    return LiveEntry(
        live_type,
        key & layout.ID_MASK,
        kind,
        _chips_of(devices, sets) if live_type is not LiveType.PROGRAM else (),
        time,
        requested,
        reserved or None,
        address,
        None if live_type in _BUFFERS else program,
        cores,
        number,
        name,
        site,
        phase,
        flags,
        tensor - 1 if tensor else None,
        path,
    )
