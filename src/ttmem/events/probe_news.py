"""What the region of one process has told since the last look at it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ttmem.events.device import DeviceDeclaration
from ttmem.process_identity import ProcessFacts


class KindCounter(NamedTuple):
    """Absolute figures of one kind of memory on one device."""

    requested: int
    reserved: int
    alive: int  # how many
    peak: int = 0  # of reserved
    peak_ns: int = 0


@dataclass(frozen=True, slots=True)
class ProbeCounters:
    """What the probe itself counted on one device. Nothing that was lost on the way is missing here."""

    kinds: tuple[KindCounter, ...]  # by MemoryKind
    cb_demand: int  # circular and dataflow buffers
    binaries: int | None  # bytes of DRAM that hold kernel binaries
    loads: int
    unloads: int
    dispatches: int
    cache_hits: int
    cache_misses: int
    cache_entries: int | None = None  # workloads that are in the program cache
    cb_peak: int = (
        0  # of the demand; circular and dataflow buffers may have had theirs at different times
    )


@dataclass(frozen=True, slots=True)
class ProbeNews:
    """In the order in which it is to be taken: definitions, the live table if it was read, events."""

    facts: ProcessFacts
    path: str
    devices: tuple[DeviceDeclaration, ...] = ()  # new ones
    strings: Mapping[int, str] = field(default_factory=dict)  # new ones
    cores: Mapping[int, int] = field(default_factory=dict)  # new sets, as masks
    messages: Mapping[int, str] = field(
        default_factory=dict
    )  # of failed allocations, by their time
    earlier: bytes = b""  # events from before the table was read: to list, not to account
    live: bytes | None = None  # all that is alive, as events; None: nothing was missed
    live_programs: frozenset[int] = frozenset()  # ids in `live`
    table_full: bool = False  # `live` was read, and there was not room for all in it
    events: bytes = b""
    missed: bool = False  # before `events` there were some that this reader has not seen
    lost: int = 0  # events that this reader will never see
    unlisted: int = 0  # live buffers that the table had no room for
    missing: tuple[str, ...] = ()  # what the probe cannot see of this runtime
    counters: Mapping[int, ProbeCounters] = field(default_factory=dict)  # by logical id
    tracking: bool = True  # False: it is switched off now
    unseen: int = 0  # buffers that were allocated while it was off
    ended: bool = False  # the process is gone: these are its last words

    @property
    def identity(self) -> tuple[int, int | None]:
        """Which process."""
        return (self.facts.pid, self.facts.start_time_ns)


@dataclass(frozen=True, slots=True)
class KilledProcess:
    """A process that was dead before anybody read its region, and that did not end in order."""

    pid: int
    path: str
    last_words: Callable[[], ProbeNews | None]  # read when somebody asks; None: the region is gone
    ended_ns: int | None = None  # None: nobody saw when
    user: str | None = None  # who owns the region: it tells of nobody else's process
