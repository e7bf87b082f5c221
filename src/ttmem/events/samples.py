"""Counter samples: what a runtime says that its processes hold, where no events are to be had."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from ttmem.events.device import DeviceDeclaration


class Owner(Enum):
    """What is known of the process that a counter names."""

    LIVE = "live"
    DEAD = "dead"  # gone: a ghost, whose bytes are in no sum
    REUSED = "reused"  # the pid belongs to a younger process now
    REPLACED = (
        "replaced"  # the process runs another program now (`exec`), and uses the region no more
    )
    ELSEWHERE = "elsewhere"  # alive in a container whose pids cannot be mapped
    UNVERIFIED = (
        "unverified"  # alive, and of another user than the file: anybody could have written that
    )
    ROOT = "root"  # the same, but the process is root's

    @property
    def counts(self) -> bool:
        """Whether its bytes are in use, and so in every sum."""
        return self in (Owner.LIVE, Owner.ELSEWHERE, Owner.ROOT)

    @property
    def left(self) -> bool:
        """Whether nobody uses its slot any more."""
        return self in (Owner.DEAD, Owner.REUSED, Owner.REPLACED)


class Counters(NamedTuple):
    """Bytes asked for, by kind of memory.

    A named tuple, as is ProcessSample: a full machine has 2,048 of both in every reading, and
    a frozen dataclass takes 6 times as long to make.
    """

    dram: int = 0
    l1: int = 0
    l1_small: int = 0
    trace: int = 0
    cb: int = 0

    @property
    def all(self) -> int:
        return sum(self)


KINDS = Counters._fields


def total(counters: Iterable[Counters]) -> Counters:
    """The sum, kind by kind."""
    return Counters(*map(sum, zip(*counters, strict=True)))


class ProcessSample(NamedTuple):
    """What one process is said to hold on one device."""

    pid: int  # as this host numbers it; the published one where that is unknown
    start_time_ns: int | None
    name: str | None
    owner: Owner
    counters: Counters
    updated_ns: int
    container_pid: int | None = None  # the published pid, where it is another
    kernels: int | None = None  # by a kernel counter, where the layout has one; in no sum


@dataclass(frozen=True, slots=True)
class Remark:
    """Something that a reader found and a user should know; `kind` is a word for programs."""

    kind: str
    text: str
    pid: int | None = None
    bytes: int | None = None
    path: str | None = None  # of the file that it is about, if it is about one

    @property
    def of_silence(self) -> bool:
        """Does it say that nobody knows what a process holds? Where the probe watches it, somebody does."""
        return self.kind in ("publishes_nothing", "tracking_disabled")


@dataclass(frozen=True, slots=True)
class DeviceSample:
    """All that one region says of one device."""

    unique_id: str
    declaration: (
        DeviceDeclaration | None
    )  # board, grid, capacities; None where they cannot be known
    path: str
    version: int
    logical_id: int | None
    processes: tuple[ProcessSample, ...]
    stored: Counters  # the region's own total, a cross-check
    chips: Counters | None  # the sum of its chip counters, a cross-check
    cb_method: str  # what its figure for circular buffers means
    misses: str  # what its figures are known to miss
    capacity_source: str | None = None  # 'cluster descriptor', 'umd', 'sysfs', 'unique id'
    remarks: tuple[Remark, ...] = ()
    references: int | None = None  # how many openings the region believes in
    user: str | None = None  # who owns the file
    counts_kernels: bool = False  # the layout of prototypes, whose version is 1 as well

    @property
    def layout(self) -> str:
        """'3', or '1 with kernel counters'."""
        return f"{self.version}{' with kernel counters' * self.counts_kernels}"

    @property
    def kernels(self) -> int | None:
        """The kernel counters of all that count; None if the layout has none, or one is unknown."""
        found = [each.kernels for each in self.processes if each.owner.counts]
        known = [each for each in found if each is not None]
        return sum(known) if self.counts_kernels and len(known) == len(found) else None

    @property
    def in_use(self) -> Counters:
        return in_use(self.processes)


def in_use(processes: Iterable[ProcessSample]) -> Counters:
    """The sum of what counts: live processes, here or in a container."""
    return total([each.counters for each in processes if each.owner.counts])
