"""The state at one instant. Bytes are integers; unknown values are None."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeVar

from ttmem.events import Amounts, CardSample, Telemetry
from ttmem.fast_dataclasses import NamedTuple, dataclass, field, replace
from ttmem.sizes import human, several
from ttmem.snapshots.rows import (
    Buffer,
    CircularBuffer,
    CoreSet,
    Kernel,
    LoggedEvent,
    MemoryHistory,
    Program,
    ResidentBuffer,
    Row,
)
from ttmem.workloads import Workload

SCHEMA = "ttmem.snapshot/1"
DETAILS = ("programs", "buffers", "cores", "events", "history")  # what can be asked for


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """One kind of memory of one device."""

    capacity: int | None  # what can be allocated
    requested: int  # bytes that the application asked for
    reserved: int | None  # bytes taken in all banks; None if unknown for some buffer
    held: int  # reserved where it is known, else requested; totals use it
    free: int | None  # capacity - held; None if more is held than the capacity
    largest_free: int | None  # the largest block that one allocation can still get
    count: int | None  # live buffers; None if only sums are known
    peak: int | None  # the highest value of held
    peak_time_ns: int | None


@dataclass(frozen=True, slots=True)
class CircularBuffers:
    """Circular buffers of one device, added up in three ways."""

    resident: int | None  # of the program dispatched last on each core
    cached: int | None  # the union of the address ranges of all live programs
    demand: int | None  # the plain sum
    dataflow: int | None  # the part of `cached` that dataflow buffers and scratchpads take
    used: int  # what `l1_used` includes: cached without `shared` where it is known, else demand
    count: int | None
    shared: int | None = None  # the part of `cached` inside L1 buffers; None: unknown


@dataclass(frozen=True, slots=True)
class Memory:
    dram: MemoryUse
    l1: MemoryUse
    l1_small: MemoryUse
    trace: MemoryUse
    cb: CircularBuffers

    @property
    def amounts(self) -> Amounts:
        """Held bytes by kind, as in all totals."""
        return Amounts(
            self.dram.held, self.l1.held, self.l1_small.held, self.trace.held, self.cb.used
        )


@dataclass(frozen=True, slots=True)
class Footprint:
    """Kernel binary x cores, by type: what kernels would take if they were resident everywhere."""

    application: int | None
    fabric: int | None
    dispatch: int | None

    @property
    def total(self) -> int | None:
        """The sum of all types; None if kernels are not reported."""
        if self.application is None or self.fabric is None or self.dispatch is None:
            return None
        return self.application + self.fabric + self.dispatch


@dataclass(frozen=True, slots=True)
class Ring:
    """The kernel-config ring, bytes per device; it lies below the memory that can be allocated."""

    capacity: int | None
    occupied: int | None
    wraps: int | None
    syncs: int | None
    programs: int | None


@dataclass(frozen=True, slots=True)
class Kernels:
    """Kernel code of one device; part of no memory total."""

    dram_binaries: int | None  # the part of DRAM that holds binaries
    distinct_binaries: int | None  # number of different binaries
    distinct_binary_bytes: int | None
    count: int | None  # live kernels
    footprint: Footprint
    ring: Ring
    loads: int | None
    unloads: int | None
    dispatches: int | None
    cache_entries: int | None
    cache_hits: int | None
    cache_misses: int | None
    partial: bool = False  # some kernels are not included; the provenance says which
    counted: int | None = None  # the kernel counter of a prototype runtime


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a number comes from."""

    source: str
    method: str
    misses: str | None = None  # what the number is known not to include


@dataclass(frozen=True, slots=True)
class Anomaly:
    """Something that does not add up, or that the user should know."""

    kind: str  # a name for programs
    text: str  # a sentence for people
    pid: int | None = None
    bytes: int | None = None
    time_ns: int | None = None  # when it happened, by the clock of the process


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

    unique_id: str  # identifies the chip
    logical_id: int | None  # the number that applications use
    board: str | None
    arch: str | None
    pci: str | None
    grid: tuple[int, int] | None  # columns and rows of compute cores
    memory: Memory
    l1_used: int  # L1 + L1_SMALL + circular buffers
    l1_capacity: int | None  # what can be allocated
    l1_total: int | None  # all L1 of the compute cores
    l1_peak: int | None  # the highest value of l1_used
    l1_peak_time_ns: int | None
    kernels: Kernels
    provenance: Mapping[str, Provenance] = field(default_factory=dict)
    anomalies: tuple[Anomaly, ...] = ()
    l1_map: L1Map | None = None  # None if not declared, or if processes split L1 differently
    l1_capacity_default: int | None = None  # l1_capacity of a device opened with the defaults
    remote: bool | None = None  # reached over Ethernet only, through another chip
    position: str | None = None  # on a Galaxy: tray and chip, T1:N3
    telemetry: Telemetry | None = None  # None if not asked for
    failed_allocations: int | None = None  # seen by watched processes; None: there were none

    def __repr__(self) -> str:
        where = f"{self.logical_id}, {self.unique_id!r}, {self.board or self.arch}"
        return (
            f"Device({where}, dram={human(self.memory.dram.held)}, l1_used={human(self.l1_used)})"
        )


@dataclass(frozen=True, slots=True)
class CrossCheck:
    """What another source says about a process whose events are known; counts in no total."""

    source: str
    counted: Amounts  # requested bytes
    difference: Amounts  # counted minus what the events say was requested
    time_ns: int  # when that source was last written


@dataclass(frozen=True, slots=True, repr=False)
class Process:
    """One process, identified by pid and start time."""

    pid: int
    start_time_ns: int | None
    user: str | None
    command: str | None
    alive: bool
    sources: tuple[str, ...]  # for example probe, socket, shared memory v3
    connected: bool
    devices: Mapping[str, Amounts]  # by unique id
    dropped_events: int = 0  # by its client
    overflow: int = 0  # live buffers that its client cannot resend
    container_pid: int | None = None
    cross_check: Mapping[str, CrossCheck] = field(default_factory=dict)  # by unique id
    kernels_counted: Mapping[str, int] = field(default_factory=dict)  # by unique id; in no total
    call_sites: bool | None = None  # whether operations and call sites are recorded; None: unknown
    position: int | None = None  # events of its source that this snapshot includes; None: counters
    workload: Workload | None = None  # the container, pod or Slurm job that it belongs to
    earlier_unknown: bool = False  # its first events were gone when it was first read

    def __repr__(self) -> str:
        held = Amounts.total(self.devices.values())
        sizes = f"dram={human(held.dram)}, l1_used={human(held.l1_used)}"
        return f"Process({self.pid}, {self.command!r}, {several(len(self.devices), 'device')}, {sizes})"


@dataclass(frozen=True, slots=True)
class LeftBehind:
    """What a process held when it died; counts in no total."""

    pid: int
    command: str | None
    died_ns: int | None  # None if it was dead before ttmem first saw it
    devices: Mapping[str, Amounts]  # by unique id
    ghost: bool = False  # the counters in shared memory still list it
    user: str | None = None  # its user; for a ghost, the owner of the file


@dataclass(frozen=True, slots=True)
class Losses:
    """What could not be accounted for."""

    dropped_events: int  # dropped, or overwritten before they were read
    gaps: int  # how often a client reported dropped events
    rejected_records: int  # what could not be read, or made no sense


class Question(NamedTuple):
    """Which lists a snapshot shall include.

    `device` (a unique id) and `limit` restrict the details, never the devices, processes and sums: to rows of that
    device; to the `limit` largest buffers, circular buffers and kernels, the latest programs and events, and the L1
    buffers with the lowest addresses.
    """

    detail: tuple[str, ...] = ()
    device: str | None = None
    limit: int | None = None

    @property
    def is_narrowed(self) -> bool:
        return self.device is not None or self.limit is not None


@dataclass(frozen=True, slots=True, repr=False)
class Snapshot:
    """Everything at one instant."""

    time_ns: int
    host: Mapping[str, Any]
    devices: tuple[Device, ...]
    processes: tuple[Process, ...]
    left_behind: tuple[LeftBehind, ...]
    losses: Losses
    schema: str = SCHEMA
    remarks: tuple[Anomaly, ...] = ()  # about the host, not one device
    cards: tuple[CardSample, ...] = ()  # with telemetry: cards without a device in this snapshot
    # The details. None: not asked for, or no source lists them.
    programs: tuple[Program, ...] | None = None
    kernels: tuple[Kernel, ...] | None = None  # with programs
    circular_buffers: tuple[CircularBuffer, ...] | None = None  # with programs
    buffers: tuple[Buffer, ...] | None = None
    cores: Mapping[str, tuple[CoreSet, ...]] | None = None  # by unique id
    resident: Mapping[str, tuple[ResidentBuffer, ...]] | None = None  # with cores
    l1_buffers: tuple[Buffer, ...] | None = None  # with cores
    events: tuple[LoggedEvent, ...] | None = None  # the latest, oldest first
    history: Mapping[str, MemoryHistory] | None = None  # by unique id

    def __repr__(self) -> str:
        devices, processes = len(self.devices), len(self.processes)
        return (
            f"Snapshot({several(devices, 'device')}, {several(processes, 'process', 'processes')})"
        )

    def _repr_html_(self) -> str:
        """For notebooks: what each device and each process holds."""
        from ttmem.notebook import table  # only a notebook needs it

        kinds = ("L1", "L1_SMALL", "TRACE", "CB")
        columns = ("device", "board", "DRAM", "of", "L1 used", "of", *kinds)
        devices = table(columns, map(_device_cells, self.devices), repr(self))
        if not self.processes:
            return devices
        rows = [
            (
                process.pid,
                process.user or "N/A",
                (process.command or "N/A")[:LONGEST_COMMAND],
                unique_id,
                *map(human, held),
            )
            for process in self.processes
            for unique_id, held in process.devices.items()
        ]
        more = len(rows) - MOST_CELLS
        who = ("pid", "user", "command", "device", "DRAM", *kinds)
        return devices + table(who, rows[:MOST_CELLS], f"and {more:,} more" * (more > 0))

    def device(self, wanted: int | str) -> Device | None:
        """A device by logical id (int) or unique id (str)."""
        for device in self.devices:
            if wanted == (device.unique_id if isinstance(wanted, str) else device.logical_id):
                return device
        return None

    def without_details(self) -> Snapshot:
        nothing: dict[str, Any] = dict.fromkeys(DETAIL_FIELDS)
        return replace(self, **nothing)

    def on_devices(self, ids: Collection[str]) -> Snapshot:
        """Only these devices, by unique id, with the processes that use them."""
        return replace(
            self.with_rows_on(ids),
            devices=tuple(device for device in self.devices if device.unique_id in ids),
            processes=_on_devices(self.processes, ids),
            left_behind=_on_devices(self.left_behind, ids),
            cards=(),
        )

    def with_rows_on(self, devices: Iterable[str]) -> Snapshot:
        """Only details of these devices, by unique id; rows that name no device stay."""
        wanted: set[str | None] = {None, *devices}
        kept = self._rows(lambda row: row.device in wanted)
        for name in DETAIL_MAPS:
            if (parts := getattr(self, name)) is not None:
                kept[name] = {key: part for key, part in parts.items() if key in wanted}
        return replace(self, **kept)

    def with_rows_of(self, pids: Iterable[int]) -> Snapshot:
        """Only rows of these processes; rows that name no process stay."""
        wanted: set[int | None] = {None, *pids}
        return replace(self, **self._rows(lambda row: row.pid in wanted))

    def _rows(self, wanted: Callable[[Row], bool]) -> dict[str, Any]:
        return {
            name: tuple(filter(wanted, rows))
            for name in DETAIL_ROWS
            if (rows := getattr(self, name)) is not None
        }


LONGEST_COMMAND, MOST_CELLS = 80, 100  # of a table for notebooks


def _device_cells(device: Device) -> tuple[object, ...]:
    memory = device.memory
    name = (
        device.unique_id
        if device.logical_id is None
        else f"{device.logical_id} ({device.unique_id})"
    )
    sizes = (memory.dram.held, memory.dram.capacity, device.l1_used, device.l1_capacity)
    parts = (memory.l1.held, memory.l1_small.held, memory.trace.held, memory.cb.used)
    return (name, device.board or "N/A", *map(human, (*sizes, *parts)))


DETAIL_ROWS = ("programs", "kernels", "circular_buffers", "buffers", "l1_buffers", "events")
DETAIL_MAPS = ("cores", "resident", "history")  # by unique id
DETAIL_FIELDS = (*DETAIL_ROWS, *DETAIL_MAPS)


_Owner = TypeVar("_Owner", Process, LeftBehind)


def _on_devices(owners: Iterable[_Owner], ids: Collection[str]) -> tuple[_Owner, ...]:
    """The processes on these devices, with what they hold there."""
    held = (
        (owner, {key: all_ for key, all_ in owner.devices.items() if key in ids})
        for owner in owners
    )
    return tuple(replace(owner, devices=devices) for owner, devices in held if devices)
