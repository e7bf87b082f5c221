"""The tables of a region as plain data. Records with a wrong checksum are left out."""

from __future__ import annotations

from ttmem.events import MemoryKind
from ttmem.events.device import DeviceDeclaration
from ttmem.fast_dataclasses import dataclass
from ttmem.probe import _records, layout
from ttmem.probe.layout import Section
from ttmem.procfs import user_name
from ttmem.sources.probe.region_file import RegionFile, TooMuch
from ttmem.wire.frames import Rectangle

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
    what: str  # 'buffer', 'circular buffers', 'dataflow buffers'
    message: str


@dataclass(frozen=True, slots=True)
class LiveEntry:
    """A buffer, circular buffer, program or kernel that is alive, or was when its process died."""

    type: layout.LiveType
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


def whole_records(file: RegionFile, section: Section, count: int, first: int = 0) -> list[bytes]:
    """The records of a section; empty where the checksum is wrong."""
    data = file.records(section, first, count)
    stride = file.stride(section)
    good = _records.whole_records(data, stride)
    return [
        data[i * stride : (i + 1) * stride] if good[i] else b"" for i in range(len(data) // stride)
    ]


def chips_of(named: int, sets: list[tuple[int, ...]]) -> tuple[int, ...]:
    if not named & layout.SET_OF_DEVICES:
        return (named,)
    number = named & ~layout.SET_OF_DEVICES
    return sets[number] if number < len(sets) else ()


def read_sets(file: RegionFile, count: int) -> list[tuple[int, ...]]:
    found = []
    for record in whole_records(file, Section.SETS, count):
        values = layout.SET.unpack(record) if record else (0, 0)
        found.append(tuple(values[3 : 3 + min(values[1], 64)]))
    return found


def read_cores(file: RegionFile, first: int, count: int) -> dict[int, list[Rectangle]]:
    """Rectangles of core sets, by number. Sets with more rectangles than a record holds are left out."""
    found = {}
    for i, record in enumerate(whole_records(file, Section.CORES, count - first, first)):
        if record:
            values = layout.CORES.unpack(record)
            flat = values[3 : 3 + 4 * min(values[1], 16)]
            ranges = [
                (flat[j], flat[j + 1], flat[j + 2], flat[j + 3]) for j in range(0, len(flat), 4)
            ]
            if sum((x1 - x0 + 1) * (y1 - y0 + 1) for x0, y0, x1, y1 in ranges) == values[2]:
                found[first + i] = ranges
    return found


def read_devices(file: RegionFile, count: int) -> list[DeviceDeclaration | None]:
    """As the runtime described them, in the order of the counters."""
    return [
        _declaration(record) if record else None
        for record in whole_records(file, Section.DEVICES, count)
    ]


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


def read_counters(file: RegionFile, devices: int) -> list[list[Counter]]:
    """Eight counters for each device: five kinds of memory, then `layout.Counted`."""
    data = file.records(Section.COUNTERS, 0, devices * layout.KINDS)
    found = list(map(_counter, layout.COUNTER.iter_unpack(data)))
    return [found[i : i + layout.KINDS] for i in range(0, len(found), layout.KINDS)]


def _counter(row: tuple[int, ...]) -> Counter:
    """With the peak since the last reset, or the highest before it, which knows its line also if they are equal."""
    recent, earlier = row[4:9], row[9:14]
    requested, reserved, allocations, frees = row[:4]
    peak, time_ns, name, site, capacity = earlier if earlier[0] >= recent[0] else recent
    held = requested, reserved, allocations, frees
    return Counter(*held, peak, time_ns or None, name, site, capacity, recent_peak=recent[0])


def read_activity(file: RegionFile, devices: int) -> list[Activity]:
    data = file.records(Section.ACTIVITY, 0, devices)
    return [Activity(*values) for values in layout.ACTIVITY.iter_unpack(data)]


def read_features(file: RegionFile) -> dict[str, bool]:
    """Which features the probe found; empty before the first device was opened."""
    data = file.records(Section.FEATURES, 0, file.count(Section.FEATURES))
    return {
        name.split(b"\0")[0].decode("ascii", "replace"): state == 1
        for name, state, _ in layout.FEATURE.iter_unpack(data)
        if state in (1, 2)
    }


def read_failures(file: RegionFile, sets: list[tuple[int, ...]]) -> list[Failure]:
    what = ("buffer", "circular buffers", "dataflow buffers")
    found = []
    for record in whole_records(file, Section.FAILURES, file.count(Section.FAILURES)):
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
                    chips_of(devices, sets),
                    name,
                    site,
                    what[min(code, 2)],
                    text[:length].decode("utf-8", "replace").split("\nbacktrace:")[0],
                )
            )
    return sorted(found, key=lambda failure: failure.time_ns)


_BUFFERS = (layout.LiveType.BUFFER, layout.LiveType.LEFT_BUFFER)


def read_live(file: RegionFile, sets: list[tuple[int, ...]]) -> list[LiveEntry]:
    """All live entries; TooMuch if there are more than a region of its size may have."""
    found, entries = [], 0
    for keys, records in file.pieces(Section.LIVE_KEYS, Section.LIVE):
        for values in layout.LIVE.iter_unpack(_records.whole_live(keys, records)):
            entry = _live(values, sets)
            if entry is not None:
                found.append(entry)
                entries += max(1, len(entry.chips))
        if entries > file.most_entries:
            raise TooMuch(
                f"{file.path} of user {user_name(file.uid)} has more than {file.most_entries:,} live buffers, "
                "circular buffers and kernels on all chips, the limit for a region of its size: it is "
                "not counted"
            )
    return found


def _live(values: tuple[int, ...], sets: list[tuple[int, ...]]) -> LiveEntry | None:
    _, key, time, requested, reserved, address, program, *rest = values
    devices, cores, name, site, phase, number, flags, _thread, kind, tensor, path, _ = rest
    if key >> 56 not in list(layout.LiveType):
        return None
    live_type = layout.LiveType(key >> 56)
    return LiveEntry(
        live_type,
        key & layout.ID_MASK,
        kind,
        chips_of(devices, sets) if live_type is not layout.LiveType.PROGRAM else (),
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
