"""What the probe region of one process has reported since it was last read."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ttmem.events.device import DeviceDeclaration
from ttmem.fast_dataclasses import NamedTuple, dataclass, field
from ttmem.procfs import ProcessFacts


class KindCounter(NamedTuple):
    """Totals for one kind of memory on one device."""

    requested: int
    reserved: int
    alive: int  # number of live buffers
    peak: int = 0  # of reserved
    peak_ns: int = 0


@dataclass(frozen=True, slots=True)
class ProbeCounters:
    """What the probe itself counted on one device; complete even if events were lost."""

    kinds: tuple[KindCounter, ...]  # by MemoryKind
    cb_demand: int  # circular and dataflow buffers
    binaries: int | None  # bytes of DRAM occupied by kernel binaries
    loads: int
    unloads: int
    dispatches: int
    cache_hits: int
    cache_misses: int
    cache_entries: int | None = None  # workloads in the program cache
    cb_peak: int = 0  # of the demand; an upper bound if circular and dataflow buffers peaked at different times


@dataclass(frozen=True, slots=True)
class ProbeNews:
    """To be applied in this order: definitions, the live table if it was read, events."""

    facts: ProcessFacts
    path: str
    devices: tuple[DeviceDeclaration, ...] = ()  # new ones
    strings: Mapping[int, str] = field(default_factory=dict)  # new ones
    cores: Mapping[int, int] = field(default_factory=dict)  # new core sets, as masks
    # Error messages of failed allocations, by time.
    messages: Mapping[int, str] = field(default_factory=dict)
    earlier: bytes = b""  # events that precede the table: to be listed, not counted
    live: bytes | None = None  # everything alive, as events; None if nothing was missed
    live_programs: frozenset[int] = frozenset()  # ids in `live`
    table_full: bool = False  # `live` was read, but it could not hold everything
    events: bytes = b""
    position: int | None = None  # in the ring, after `events`; None: they are counted
    missed: bool = False  # events before `events` have not been seen by this reader
    lost: int = 0  # events this reader will never see
    unlisted: int = 0  # live buffers that did not fit into the table
    missing: tuple[str, ...] = ()  # what the probe cannot observe in this runtime
    counters: Mapping[int, ProbeCounters] = field(default_factory=dict)  # by logical id
    tracking: bool = True  # False while it is switched off
    call_sites: bool | None = None  # whether operations and call sites are recorded
    unseen: int = 0  # buffers allocated while it was off
    ended: bool = False  # the process is gone, and this is its final report
    container_pid: int | None = None  # what the process calls itself, if that is another pid
    first: bool = False  # first reading of the region, or the first after it was refused
    refused: bool = False  # the region is not read for a while, so its process is unknown
    # The next reading continues where this one ends; counters come with the last.
    more: bool = False
    most_live: int | None = None  # live entries of it that the accounts keep; None: all

    @property
    def identity(self) -> tuple[int, int | None]:
        return (self.facts.pid, self.facts.start_time_ns)


@dataclass(frozen=True, slots=True)
class KilledProcess:
    """A process that died abnormally before its region was ever read."""

    pid: int
    path: str
    last_words: Callable[[], ProbeNews | None]  # read on demand; None if the region is gone
    ended_ns: int | None = None  # None if unknown
    # Owner of the region, which is believed only about that user's processes.
    user: str | None = None
