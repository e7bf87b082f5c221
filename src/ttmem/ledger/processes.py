"""Processes and their accounts, and what they hold in total."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from sys import getsizeof

from ttmem.events import Amounts, DeviceDeclaration, MemoryKind
from ttmem.events.probe_news import ProbeCounters, ProbeNews
from ttmem.fast_dataclasses import dataclass, field
from ttmem.ledger.context import ProcessContext, title
from ttmem.procfs import ProcessFacts
from ttmem.snapshots import Anomaly

MAX_STRINGS = 100_000
MAX_STRING_BYTES = 16 << 20
OF_A_STRING = 100  # bytes that an entry costs
MOST_MESSAGES = 256  # failed allocations per process; a region has the last 64


# What the figures of a watched process are known to miss.
UNTRACKED = "what was allocated while tracking was switched off"
ALL_CHIPS = (
    "which chips of a mesh a program runs on, which this runtime does not expose to the probe: a program is counted on"
    " all of them"
)
LOWER_BOUND = "what did not fit into the probe's table: it is at least this much"
UNSEEN_EVENTS = (
    "events that were overwritten before they were read: how often some programs ran, what is resident on cores where"
    " nothing has run since, and the peak of L1 used are N/A"
)


Difference = tuple[int, ...]  # bytes by kind of memory, then circular buffers


@dataclass(slots=True)
class Doubt:
    """A difference between the counters and the events of a device that does not change."""

    difference: Difference
    looks: int = 1
    rebuilt: bool = False  # and is still there after the live table was read


@dataclass(slots=True)
class ProbeState:
    """What the probe of one process has counted, and what it misses.

    If a table is full, there are sums of the buffers beyond it, but of nothing else.
    """

    tracking: bool = True
    call_sites: bool | None = None  # whether operations and call sites are recorded
    unseen: int = 0  # buffers that were allocated while tracking was off
    missed: bool = False  # events were overwritten before they were read
    uncounted: set[int] = field(default_factory=set)  # programs that ran unobserved
    table_full: bool = False  # the table was read, and did not have everything
    unlisted: int = 0  # live buffers that are reported as one entry
    # By device and kind, where lists are incomplete.
    alive: dict[str, tuple[int, ...]] = field(default_factory=dict)
    lower_bound: set[str] = field(default_factory=set)  # devices with possibly unreported programs
    counters: bytes | None = None  # those that the ledger has, as events
    peaks: dict[tuple[int, MemoryKind], int] = field(default_factory=dict)  # by device index
    doubts: dict[int, Doubt] = field(default_factory=dict)  # by device index
    is_doubted: bool = False  # the live table should be read now
    # What the ledger has, by logical id, for buffers that no single entry shows: requested, reserved.
    entered: dict[tuple[int, MemoryKind], tuple[int, int]] = field(default_factory=dict)

    def take(self, news: ProbeNews) -> None:
        self.tracking, self.unseen = news.tracking, news.unseen
        self.call_sites = news.call_sites
        self.table_full |= news.table_full

    def compare(self, device: str, counted: ProbeCounters) -> None:
        """Whether there are programs that did not fit into the table: the probe does not count those."""
        if self.table_full and (counted.cb_peak or counted.loads):
            self.lower_bound.add(device)

    @property
    def untracked(self) -> bool:
        """Whether there is, or may be, something that nobody has seen."""
        return self.unseen > 0 or not self.tracking

    @property
    def has_anomalies(self) -> bool:
        """On any device."""
        return self.untracked or self.unlisted > 0 or bool(self.lower_bound)

    def anomalies(self, who: str, pid: int, device: str) -> Iterator[Anomaly]:
        """What a reader of the sums of one device must know."""
        if not self.tracking:
            text = f"{who}: tracking is switched off: what it allocates now is not counted"
            yield Anomaly("untracked", text, pid)
        if self.unseen:
            buffers = "buffer was" if self.unseen == 1 else "buffers were"
            text = (
                f"{who}: {self.unseen:,} {buffers} allocated while tracking was off; those still alive"
                " are not counted"
            )
            yield Anomaly("untracked", text, pid)
        told = "; ".join(self._beyond(device))
        if told:
            text = f"{who}: its probe's table is full: {told} (`ttmem run --live` enlarges it)"
            yield Anomaly("probe_table", text, pid)

    def _beyond(self, device: str) -> Iterator[str]:
        if self.unlisted:
            buffers = "live buffer is" if self.unlisted == 1 else "live buffers are"
            yield f"{self.unlisted:,} {buffers} in all totals, but shown as a single entry in lists"
        if device in self.lower_bound:
            yield "circular buffers and kernels may be missing: CB, L1 used and kernel code are at least what is shown"


@dataclass(slots=True, eq=False)
class ProcessRecord:
    """A process that reported something, until it dies; or one of its further connections, as part of it."""

    index: int
    facts: ProcessFacts
    sources: set[str] = field(default_factory=set)
    connections: int = 0
    container_pid: int | None = None
    dropped: int = 0
    overflow: int = 0
    gaps: int = 0
    position: int = 0  # events of its source that were accounted; for a probe: in its ring
    devices: dict[int, str] = field(default_factory=dict)  # logical id -> unique id
    declared: dict[int, DeviceDeclaration] = field(default_factory=dict)  # by logical id
    # Logical ids of devices that were refused.
    refused_devices: set[int] = field(default_factory=set)
    incomplete: str | None = None  # why it must report everything again
    strings: dict[int, str] = field(default_factory=dict)
    string_bytes: int = 0
    messages: dict[int, str] = field(default_factory=dict)  # of failed allocations, by time
    missing: tuple[str, ...] = ()  # what its probe misses
    probe: ProbeState = field(default_factory=ProbeState)
    binaries: dict[str, int | None] = field(default_factory=dict)  # in DRAM, as its probe saw them
    counted_as: ProcessRecord | None = None  # the account of the same process that counts instead
    reporter: str | None = None  # identifies one of several connections of the process
    image: str | None = None  # the program it ran then: `exec` starts another
    # The first account of the process, if this is a further one.
    part_of: ProcessRecord | None = None
    # Further accounts, if this is the first.
    parts: list[ProcessRecord] = field(default_factory=list)

    @property
    def pid(self) -> int:
        """As the server's kernel numbers it."""
        return self.facts.pid

    def keep_messages(self, messages: Mapping[int, str]) -> None:
        """Of failed allocations; the oldest are forgotten."""
        self.messages.update(messages)
        while len(self.messages) > MOST_MESSAGES:
            del self.messages[next(iter(self.messages))]

    @property
    def accounts(self) -> tuple[ProcessRecord, ...]:
        """Everything that was reported about the process over the same source: it adds up."""
        return (self, *self.parts)

    @property
    def title(self) -> str:
        return title(self.pid, self.facts.command)

    @property
    def lost(self) -> int:
        """Lost events, or buffers that a client cannot report again.

        What is beyond a probe's table is in its counters.
        """
        return self.dropped + (0 if "probe" in self.sources else self.overflow)

    def context(self) -> ProcessContext:
        facts, probe = self.facts, self.probe
        return ProcessContext(
            index=self.index,
            pid=facts.pid,
            start_time_ns=facts.start_time_ns,
            user=facts.user,
            command=facts.command,
            sources=in_words(self.sources),
            connected=self.connections > 0,
            container_pid=self.container_pid,
            position=self.position if self.index >= 0 else None,
            dropped=self.dropped,
            overflow=self.overflow,
            whole=self.index if self.part_of is None else self.part_of.index,
            counted_as=None if self.counted_as is None else self.counted_as.index,
            devices={str(number): unique_id for number, unique_id in self.devices.items()},
            binaries=dict(self.binaries),
            missing=self.missing,
            untracked=probe.untracked,
            call_sites=probe.call_sites,
            missed=probe.missed,
            lower_bound=tuple(sorted(probe.lower_bound)),
            alive=dict(probe.alive),
            uncounted=tuple(sorted(probe.uncounted)),
            workload=facts.workload,
        )

    def string_cost(self, number: int, text: str) -> int | None:
        """How many more bytes it would take to keep a declared string; None if that exceeds the limit."""
        known = self.strings.get(number)  # a client declares all of them again when it reconnects
        grown = OF_A_STRING + getsizeof(text)
        if known is not None:
            grown -= OF_A_STRING + getsizeof(known)
        elif len(self.strings) >= MAX_STRINGS:
            return None
        return grown if self.string_bytes + grown <= MAX_STRING_BYTES else None


MAX_LEFT_BEHIND = 64
_ORDER = {"probe": 0, "socket": 1}


def holding(devices: Mapping[str, Amounts]) -> dict[str, Amounts]:
    """Without the devices on which it holds nothing."""
    return {unique_id: sums for unique_id, sums in devices.items() if sums.all}


def in_words(sources: Iterable[str]) -> tuple[str, ...]:
    """The better source first: 'probe', 'socket', 'shared memory v3'."""
    return tuple(sorted(sources, key=lambda source: (_ORDER.get(source, len(_ORDER)), source)))
