"""One process under the probe as plain data: what the questions of this room are asked of."""

from __future__ import annotations

from dataclasses import dataclass

from ttmem.events import MemoryKind
from ttmem.events.device import DeviceDeclaration
from ttmem.probe.layout import Counted


@dataclass(frozen=True, slots=True)
class Origin:
    """Who did it; what is unknown is None."""

    op: str | None = None
    site: str | None = None  # 'file:line function'; with stacks, the callers in the lines below
    phase: str | None = None
    sought: bool = True  # False: the process was told to look for neither op nor line


@dataclass(frozen=True, slots=True)
class HighWater:
    """The most that one kind of memory ever held on one device, and who made it so."""

    kind: MemoryKind | Counted
    bytes: int
    origin: Origin
    size: int | None = None  # of that memory then; 0: unknown, None: as the device is declared


@dataclass(frozen=True, slots=True)
class Refusal:
    """A buffer that found no room in a region whose size users choose. Figures are of one bank; None: not told."""

    kind: int
    least: int | None = None  # what the bank would have needed: what it held and what was asked for
    bank_size: int | None = None


@dataclass(frozen=True, slots=True)
class DeviceUse:
    """One device of the process, as it was opened last."""

    declaration: DeviceDeclaration
    peaks: tuple[HighWater, ...]  # of kinds that were used, and of those whose size users choose
    refusals: tuple[Refusal, ...] = ()


@dataclass(frozen=True, slots=True)
class Holding:
    """A buffer that is or was alive."""

    kind: int
    chips: tuple[int, ...]
    held: int  # on each chip: reserved in all banks, else what was asked for
    address: int
    origin: Origin


@dataclass(frozen=True, slots=True)
class FailedAllocation:
    """An allocation that the runtime refused, and who held what at that moment."""

    what: str  # 'buffer', 'circular buffers', 'dataflow buffers'
    kind: int
    chips: tuple[int, ...]
    requested: int | None
    message: str
    origin: Origin
    holdings: tuple[Holding, ...]  # all kinds
    of_that_moment: bool = True  # False: the ring has lost it, and `holdings` are those of now


@dataclass(frozen=True, slots=True)
class ProcessPicture:
    """What is left of a process, or what it is now."""

    pid: int
    running: bool
    in_order: bool  # it ended, and said so
    devices: tuple[DeviceUse, ...]
    never_freed: tuple[Holding, ...]  # or freed only because its device was closed
    failures: int
    losses: tuple[str, ...]  # in words
