"""What is true at one instant. Bytes are whole numbers; what is unknown is None."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ttmem.events import Amounts, CardSample, Telemetry
from ttmem.sizes import human, several

SCHEMA = "ttmem.snapshot/1"


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """One kind of memory of one device."""

    capacity: int | None  # what can be allocated
    requested: int  # bytes asked for
    reserved: int | None  # bytes taken in all banks; None if some buffer's are unknown
    held: int  # reserved where it is known, else requested: what the sums use
    free: int | None
    largest_free: int | None  # the largest hole of a bank x banks: what one allocation can have
    count: int | None  # None: the source tells sums only
    peak: int | None  # of held; None: by counters, and nobody has looked all the time
    peak_time_ns: int | None


@dataclass(frozen=True, slots=True)
class CircularBuffers:
    """The three numbers of circular buffers, and which one the L1 sum uses."""

    resident: int | None
    cached: int | None
    demand: int | None
    dataflow: int | None
    used: int  # what the L1 sum takes: cached where it is known, else demand; what counters say
    count: int | None


@dataclass(frozen=True, slots=True)
class Memory:
    """All memory of one device."""

    dram: MemoryUse
    l1: MemoryUse
    l1_small: MemoryUse
    trace: MemoryUse
    cb: CircularBuffers

    @property
    def amounts(self) -> Amounts:
        """What is held, in the measure that totals use."""
        return Amounts(
            self.dram.held, self.l1.held, self.l1_small.held, self.trace.held, self.cb.used
        )


@dataclass(frozen=True, slots=True)
class Footprint:
    """Kernel binary x cores, by type: what it would take if everything were resident everywhere."""

    application: int | None
    fabric: int | None
    dispatch: int | None

    @property
    def total(self) -> int | None:
        """All types; None where nobody tells of kernels."""
        if self.application is None or self.fabric is None or self.dispatch is None:
            return None
        return self.application + self.fabric + self.dispatch


@dataclass(frozen=True, slots=True)
class Ring:
    """The kernel-config ring, bytes per device; it lies below what can be allocated."""

    capacity: int | None
    occupied: int | None
    wraps: int | None
    syncs: int | None
    programs: int | None


@dataclass(frozen=True, slots=True)
class Kernels:
    """Kernel code of one device; in no memory sum."""

    dram_binaries: int | None
    distinct_binaries: int | None  # how many different ones
    distinct_binary_bytes: int | None
    count: int | None
    footprint: Footprint
    ring: Ring
    loads: int | None
    unloads: int | None
    dispatches: int | None
    cache_entries: int | None
    cache_hits: int | None
    cache_misses: int | None
    partial: bool = False  # some kernels of this device are in no figure; the provenance says which
    counted: int | None = None  # by the runtime's own counter, where a prototype has one


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a number comes from, how it was made, what it is known to miss."""

    source: str
    method: str
    misses: str | None = None


@dataclass(frozen=True, slots=True)
class Anomaly:
    """Something that does not add up, and who did it."""

    kind: str
    text: str
    pid: int | None = None
    bytes: int | None = None
    time_ns: int | None = None  # when it happened, by the clock of the process; None: nobody told


@dataclass(frozen=True, slots=True)
class L1Map:
    """Addresses in the L1 of each core: firmware, then the kernel ring, then what can be allocated."""

    banks: int  # cores with such a bank
    ring_base: int | None
    base: int  # circular buffers grow up from here
    small_base: int  # buffers grow down from here; above is L1_SMALL
    end: int


@dataclass(frozen=True, slots=True, repr=False)
class Device:
    """One chip."""

    unique_id: str
    logical_id: int | None
    board: str | None
    arch: str | None
    pci: str | None
    grid: tuple[int, int] | None
    memory: Memory
    l1_used: int
    l1_capacity: int | None
    l1_total: int | None
    l1_peak: int | None  # None: as of `peak`, or events were overwritten before they were read
    l1_peak_time_ns: int | None
    kernels: Kernels
    provenance: Mapping[str, Provenance] = field(default_factory=dict)
    anomalies: tuple[Anomaly, ...] = ()
    l1_map: L1Map | None = None  # None: not declared, or several processes split L1 differently
    l1_capacity_default: int | None = (
        None  # where l1_capacity is unknown: if opened with no options
    )
    remote: bool | None = None  # reached over Ethernet only, through another chip
    position: str | None = None  # on a Galaxy: tray and chip, T1:N3
    telemetry: Telemetry | None = None  # None: nobody asked for it

    def __repr__(self) -> str:
        where = f"{self.logical_id}, {self.unique_id!r}, {self.board or self.arch}"
        return (
            f"Device({where}, dram={human(self.memory.dram.held)}, l1_used={human(self.l1_used)})"
        )


@dataclass(frozen=True, slots=True)
class CrossCheck:
    """What another source says of a process on a device whose events are known; in no sum."""

    source: str
    counted: Amounts  # bytes asked for, as that source has them
    difference: Amounts  # the same minus what the events say was asked for; may be negative
    time_ns: int  # when that source was last written


@dataclass(frozen=True, slots=True, repr=False)
class Process:
    """One process, identified by pid and start time."""

    pid: int
    start_time_ns: int | None
    user: str | None
    command: str | None
    alive: bool
    sources: tuple[str, ...]
    connected: bool
    devices: Mapping[str, Amounts]
    dropped_events: int = 0  # by its client, for want of room
    overflow: int = 0  # live buffers that its client could not remember
    container_pid: int | None = None
    cross_check: Mapping[str, CrossCheck] = field(default_factory=dict)  # by unique id
    kernels_counted: Mapping[str, int] = field(default_factory=dict)  # by unique id; in no sum

    def __repr__(self) -> str:
        held = Amounts.total(self.devices.values())
        sizes = f"dram={human(held.dram)}, l1_used={human(held.l1_used)}"
        return f"Process({self.pid}, {self.command!r}, {several(len(self.devices), 'device')}, {sizes})"


@dataclass(frozen=True, slots=True)
class LeftBehind:
    """What a process held when it died; in no sum."""

    pid: int
    command: str | None
    died_ns: int | None  # None: before anybody looked
    devices: Mapping[str, Amounts]
    ghost: bool = False  # shared memory still says that it holds this
    user: str | None = None  # whose it was; of a ghost, who owns the file that says so


@dataclass(frozen=True, slots=True)
class Losses:
    """What could not be accounted."""

    dropped_events: int
    gaps: int
    rejected_records: int


@dataclass(frozen=True, slots=True, repr=False)
class Snapshot:
    """Everything at one instant."""

    time_ns: int
    host: Mapping[str, Any]
    devices: tuple[Device, ...]
    processes: tuple[Process, ...]
    left_behind: tuple[LeftBehind, ...]
    losses: Losses
    detail: Mapping[str, Any] = field(
        default_factory=dict
    )  # programs, buffers, cores, events, history
    schema: str = SCHEMA
    remarks: tuple[Anomaly, ...] = ()  # of the host, not of one device
    cards: tuple[CardSample, ...] = ()  # with telemetry: cards without a device in this snapshot

    def __repr__(self) -> str:
        devices, processes = len(self.devices), len(self.processes)
        return (
            f"Snapshot({several(devices, 'device')}, {several(processes, 'process', 'processes')})"
        )

    def device(self, wanted: int | str) -> Device | None:
        """A device by logical id (int) or unique id (str)."""
        for device in self.devices:
            if wanted == (device.unique_id if isinstance(wanted, str) else device.logical_id):
                return device
        return None
