"""What a reader finds where there are no events: counters of processes and devices, sensors of cards."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from functools import cached_property

from ttmem.events.amounts import Amounts
from ttmem.events.device import DeviceDeclaration
from ttmem.fast_dataclasses import NamedTuple, dataclass, field


class Owner(Enum):
    """What is known about the process a counter belongs to."""

    LIVE = "live"
    DEAD = "dead"  # its bytes are not counted
    REUSED = "reused"  # the pid now belongs to a younger process
    REPLACED = "replaced"  # the process called `exec` and no longer uses the region
    ELSEWHERE = "elsewhere"  # alive in a container whose pids cannot be mapped to ours
    UNVERIFIED = "unverified"  # alive, but not owned by the file's owner, who could have made it up
    ROOT = "root"  # the same, but the process is owned by root

    @cached_property  # asked for thousands of slots in every reading
    def counts(self) -> bool:
        """Whether its bytes are in use and therefore part of every total."""
        return self in (Owner.LIVE, Owner.ELSEWHERE, Owner.ROOT)

    @cached_property
    def left(self) -> bool:
        """Whether its slot is no longer used."""
        return self in (Owner.DEAD, Owner.REUSED, Owner.REPLACED)


class ProcessSample(NamedTuple):
    """What the counters say one process holds on one device; a named tuple for the reason given at Amounts."""

    pid: int  # in this host's namespace, or as published where that is unknown
    start_time_ns: int | None
    name: str | None
    owner: Owner
    counters: Amounts  # requested
    updated_ns: int
    container_pid: int | None = None  # the published pid, if it differs
    kernels: int | None = None  # kernel counter, if the layout has one; not part of any total


COUNTERS_CLOSED = "other_user"  # `Remark.kind`: a file of counters that this user may not read
PROBE_CLOSED = "other_user_probe"  # the same of a probe region
CLOSED = (COUNTERS_CLOSED, PROBE_CLOSED)
# What a process that is gone left in the counters.
GHOSTS = ("ghost", "reused_pid", "replaced_program")


@dataclass(frozen=True, slots=True)
class Remark:
    """Something a reader found that the user should know; `kind` identifies it for programs."""

    kind: str
    text: str
    pid: int | None = None
    bytes: int | None = None
    path: str | None = None  # of the file concerned, if any

    @property
    def of_silence(self) -> bool:
        """Whether it says that a process reports nothing, which is moot if the probe watches that process."""
        return self.kind in ("publishes_nothing", "tracking_disabled")


@dataclass(frozen=True, slots=True)
class DeviceSample:
    """Everything one shared-memory region says about one device."""

    unique_id: str
    # Board, grid, capacities; None if they cannot be determined.
    declaration: DeviceDeclaration | None
    path: str
    version: int
    logical_id: int | None
    processes: tuple[ProcessSample, ...]
    stored: Amounts  # the region's own total, for cross-checking
    chips: Amounts | None  # the sum of its chip counters, for cross-checking
    cb_method: str  # what its circular-buffer figure means
    misses: str  # what its figures are known to leave out
    capacity_source: str | None = None  # 'cluster descriptor', 'umd', 'sysfs', 'unique id'
    remarks: tuple[Remark, ...] = ()
    references: int | None = None  # the region's own count of how often it is open
    user: str | None = None  # owner of the file
    counts_kernels: bool = False  # a prototype layout, which is also version 1

    @property
    def layout(self) -> str:
        """For example '3' or '1 with kernel counters'."""
        return f"{self.version}{' with kernel counters' * self.counts_kernels}"

    @property
    def kernels(self) -> int | None:
        """Sum of the kernel counters of all live processes; None if the layout has none, or if any is unknown."""
        found = [each.kernels for each in self.processes if each.owner.counts]
        known = [each for each in found if each is not None]
        return sum(known) if self.counts_kernels and len(known) == len(found) else None

    @property
    def in_use(self) -> Amounts:
        return in_use(self.processes)


def in_use(processes: Iterable[ProcessSample]) -> Amounts:
    """The total of all live processes, here or in a container."""
    return Amounts.total([each.counters for each in processes if each.owner.counts])


@dataclass(frozen=True, slots=True)
class TelemetryLimits:
    """Where the firmware throttles the chip; None if it does not say."""

    temperature_c: float | None = None
    power_w: float | None = None
    current_a: float | None = None
    voltage_mv: int | None = None


@dataclass(frozen=True, slots=True)
class Telemetry:
    """Sensor readings of one chip. Unknown values are None; `reasons` explains them, by field name."""

    temperature_c: float | None = None  # of the ASIC
    power_w: float | None = None
    current_a: float | None = None
    voltage_mv: int | None = None  # of the core
    aiclk_mhz: int | None = None
    axiclk_mhz: int | None = None
    arcclk_mhz: int | None = None
    fan_rpm: int | None = None
    heartbeat: int | None = None  # a counter the firmware keeps incrementing
    firmware: str | None = None  # bundle version
    limits: TelemetryLimits = TelemetryLimits()
    source: str | None = None  # 'sysfs', 'umd' or both; None if there is no source
    stale: bool | None = None  # the heartbeat has stopped; None if it was read less than twice
    unchanged_s: float | None = None  # how long the heartbeat has not changed
    reasons: Mapping[str, str] = field(default_factory=dict)


# The fields that come from a sensor or the firmware.
VALUES: tuple[str, ...] = Telemetry.__match_args__[: Telemetry.__match_args__.index("limits")]


def no_telemetry(reason: str) -> Telemetry:
    return Telemetry(reasons=dict.fromkeys(VALUES, reason))


@dataclass(frozen=True, slots=True)
class CardSample:
    """A chip known to the driver, and its telemetry."""

    number: int | None  # N in /dev/tenstorrent/N; None for a remote chip
    board: str | None
    arch: str | None
    pci: str | None
    serial: str | None  # of the board, in hexadecimal
    asic_id: str | None  # decimal, like the unique id of a device
    remote: bool | None
    position: str | None
    telemetry: Telemetry
