"""What a snapshot needs besides the native ledger, as plain values that can be saved to a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from ttmem.events import Amounts, DeviceDeclaration, DeviceSample, MemoryKind
from ttmem.fast_dataclasses import NamedTuple, dataclass
from ttmem.snapshots import Anomaly, L1Map, LeftBehind, Provenance
from ttmem.text import clip, short_command
from ttmem.workloads import Workload

T = TypeVar("T")


def l1_capacity(declared: DeviceDeclaration) -> int | None:
    """What L1, L1_SMALL and circular buffers share."""
    if declared.l1_capacity is not None:
        return declared.l1_capacity
    l1 = declared.banks(MemoryKind.L1).capacity
    return None if l1 is None else l1 + (declared.banks(MemoryKind.L1_SMALL).capacity or 0)


def l1_map(declared: DeviceDeclaration, one_layout: bool) -> L1Map | None:
    """The boundaries in the L1 of each core, as far as they were declared.

    `one_layout`: whether all processes that have the device open divide its banks in the same way.
    """
    banks, size, base = declared.banks(MemoryKind.L1)
    end, ring = declared.l1_per_core, declared.ring_per_core
    if not one_layout or not banks or size is None or base is None or end is None:
        return None
    return L1Map(
        banks=banks,
        ring_base=None if ring is None or ring > base else base - ring,
        base=base,
        small_base=base + size,
        end=end,
    )


@dataclass(frozen=True, slots=True)
class SampleContext:
    """What the latest reading of the counters says about one device."""

    version: int
    counts_kernels: bool
    kernels: int | None
    misses: str
    cb_method: str

    @classmethod
    def of(cls, sample: DeviceSample) -> SampleContext:
        return cls(
            sample.version, sample.counts_kernels, sample.kernels, sample.misses, sample.cb_method
        )

    @property
    def source(self) -> str:
        return source_of(self.version)


def source_of(version: int) -> str:
    """'shared memory v3'."""
    return f"shared memory v{version}"


@dataclass(frozen=True, slots=True)
class PeakContext:
    """Peaks found by polling: one number for each MemoryKind, then one for L1 used."""

    seen: tuple[int, ...]  # everything together
    seen_ns: tuple[int, ...]
    told: tuple[int, ...]  # events, from a probe
    told_ns: tuple[int, ...]
    counted: tuple[int, ...]  # counters alone


@dataclass(frozen=True, slots=True)
class DeviceContext:
    """One device; its index in `Context.devices` is its index in the native ledger."""

    unique_id: str
    logical_id: int | None
    shown: bool  # False: no longer known
    declaration: DeviceDeclaration
    one_layout: bool
    identity: Provenance
    capacity_provenance: Provenance
    by_counters: bool  # known from counters only
    counted: bool  # counters have reported bytes on it since its peaks began
    l1_peak_missed: bool
    largest: tuple[int, ...]  # the largest capacity of each MemoryKind so far
    peaks: PeakContext
    sample: SampleContext | None
    anomalies: tuple[Anomaly, ...]  # those that do not follow from the native ledger
    failed_allocations: int | None = None


@dataclass(frozen=True, slots=True)
class ProcessContext:
    """One account: what one source, or one of several connections, reports about a process."""

    index: int  # in the native ledger; negative: known from counters only
    pid: int
    start_time_ns: int | None
    user: str | None
    command: str | None
    sources: tuple[str, ...]
    connected: bool
    container_pid: int | None
    position: int | None  # events of its source that were accounted
    dropped: int
    overflow: int
    whole: int  # the first account of the process; this one is a part of it
    counted_as: int | None  # the account that counts instead for the same process
    devices: Mapping[str, str]  # logical id to unique id
    binaries: Mapping[str, int | None]  # in DRAM, as its probe saw them; by unique id
    missing: tuple[str, ...]  # what its probe cannot see
    untracked: bool  # it may hold something that nobody has seen
    call_sites: bool | None  # whether operations and call sites are recorded
    missed: bool  # events were overwritten before they were read
    lower_bound: tuple[str, ...]  # devices with programs that may not have been reported
    alive: Mapping[str, tuple[int, ...]]  # buffers by MemoryKind, where lists are incomplete
    uncounted: tuple[int, ...]  # programs that ran unobserved
    workload: Workload | None = None

    @property
    def title(self) -> str:
        return title(self.pid, self.command)


def title(pid: int, command: str | None) -> str:
    """For sentences: 'pid 42 (python model.py)'."""
    return f"pid {pid} ({clip(short_command(command or 'command unknown'), 60)})"


class CounterContext(NamedTuple):
    """What counters say one process holds on one device."""

    process: int  # index of its account
    device: int  # index
    amounts: Amounts
    version: int  # layout of the counters
    counts_kernels: bool
    updated_ns: int
    kernels: int | None
    has_events: bool  # the account has events as well
    odd: bool  # counters have exceeded the events for a while


@dataclass(frozen=True, slots=True)
class Context:
    """Everything that a snapshot needs besides the native ledger. Unchanged values are the same objects."""

    host: Mapping[str, Any]
    watchful: bool  # counters are read all the time, so the highest reading is their peak
    devices: tuple[DeviceContext, ...]
    processes: tuple[ProcessContext, ...]
    counters: tuple[CounterContext, ...]
    left_behind: tuple[LeftBehind, ...]
    remarks: tuple[Anomaly, ...]
    dropped: int  # events that never reached the ledger
    gaps: int
    rejected: int  # records that never became events
