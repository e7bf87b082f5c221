"""The state of many hosts at one time. Unknown is None."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

SCHEMA = "ttmem.fleet/1"
HOST_SCHEMA = "ttmem.fleet-host/1"


def share(used: int | None, capacity: int | None) -> float | None:
    """From 0 to 1; more if reports exceed the capacity."""
    return None if used is None or not capacity else used / capacity


@dataclass(frozen=True, slots=True)
class FleetDevice:
    host: str
    unique_id: str
    id: str | None  # the number that its host's applications use
    board: str | None
    position: str | None  # on a Galaxy
    l1_used: int | None
    l1_capacity: int | None
    dram_used: int | None
    dram_capacity: int | None
    anomalies: int
    temperature_c: float | None
    power_w: float | None

    @property
    def l1_share(self) -> float | None:
        return share(self.l1_used, self.l1_capacity)

    @property
    def dram_share(self) -> float | None:
        return share(self.dram_used, self.dram_capacity)

    @property
    def fullness(self) -> float:
        return max(self.l1_share or 0.0, self.dram_share or 0.0)


@dataclass(frozen=True, slots=True)
class FleetProcess:
    """Processes of a host with the same labels (docs/metrics.md), summed over its devices."""

    user: str | None
    program: str | None
    namespace: str | None
    pod: str | None
    container: str | None
    job: str | None
    devices: int
    dram: int
    l1: int
    l1_small: int
    trace: int
    cb: int

    @property
    def total(self) -> int:
        return self.dram + self.l1 + self.l1_small + self.trace + self.cb


@dataclass(frozen=True, slots=True)
class FleetHost:
    """A host, identified by its `instance`. The amounts of a stale host are None."""

    name: str
    seen_ns: int | None  # time of its last snapshot; None: Prometheus has none of the last day
    stale: str | None  # why there is no newer one; None if it is current
    boards: Mapping[str, int]  # devices by board
    devices: int | None = None
    l1_share: float | None = None  # of the device whose L1 is fullest
    dram_share: float | None = None  # of the device whose DRAM is fullest
    dram_used: int | None = None
    dram_capacity: int | None = None
    processes: int | None = None
    failed: int | None = None  # allocations, in the last hour
    anomalies: int = 0

    @property
    def badness(self) -> tuple[bool, float, float]:
        """Sort key, worst first: hosts that do not answer, then failed allocations, then the fullest."""
        fullness = max(self.l1_share or 0.0, self.dram_share or 0.0)
        return self.stale is not None, float(self.failed or 0), fullness


@dataclass(frozen=True, slots=True)
class Fleet:
    time_ns: int
    source: str  # the URL
    recorded: bool  # ttmem's recording rules are installed
    hosts: tuple[FleetHost, ...]  # the worst first
    worst: tuple[FleetDevice, ...]  # the fullest devices of all hosts

    @property
    def stale(self) -> int:
        return sum(host.stale is not None for host in self.hosts)

    def to_json(self) -> dict[str, Any]:
        return {"schema": SCHEMA, **asdict(self)}


@dataclass(frozen=True, slots=True)
class HostView:
    """One host with devices and processes; for a stale host, those at `host.seen_ns`."""

    time_ns: int
    source: str
    host: FleetHost
    devices: tuple[FleetDevice, ...]
    processes: tuple[FleetProcess, ...] | None  # None: not exported (--per-process)

    def to_json(self) -> dict[str, Any]:
        return {"schema": HOST_SCHEMA, **asdict(self)}
