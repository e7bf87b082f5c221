"""Processes and their accounts, and what they hold together."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from sys import getsizeof
from typing import TYPE_CHECKING, Any

from ttmem.events import Amounts, DeviceDeclaration
from ttmem.procfs import ProcessFacts
from ttmem.snapshots import Anomaly, CrossCheck, Process
from ttmem.wire.rows import AccountRow, CounterColumns

if TYPE_CHECKING:
    from ttmem.events.probe_news import ProbeCounters, ProbeNews
    from ttmem.ledger.books import Books


MAX_STRINGS = 100_000
MAX_STRING_BYTES = 16 << 20
OF_A_STRING = 100  # bytes that its place costs


# What the figures of a watched process are known to miss.
UNTRACKED = "what was allocated while tracking was switched off"
ALL_CHIPS = (
    "which chips of a mesh a program runs on, which this runtime does not show to the probe: a program is counted on"
    " all of them"
)
LOWER_BOUND = "what the probe's table had no room for: it is at least this much"
UNSEEN_EVENTS = (
    "events that were overwritten before they were read: how often some programs ran, what lies on cores where"
    " nothing ran since, and the highest L1 used are N/A"
)


@dataclass(slots=True)
class ProbeGaps:
    """Of one process. For a table that is full there are sums of buffers beside it, but none of anything else."""

    tracking: bool = True
    call_sites: bool | None = None  # whether operations and call sites are recorded
    unseen: int = 0  # buffers that were allocated while tracking was off
    missed: bool = False  # events were overwritten before they were read
    uncounted: set[int] = field(default_factory=set)  # programs that ran unseen
    table_full: bool = False  # the table was read, and had no room for all
    unlisted: int = 0  # live buffers that are told as one entry
    alive: dict[str, tuple[int, ...]] = field(
        default_factory=dict
    )  # how many by device and kind, where lists do not have all
    lower_bound: set[str] = field(default_factory=set)  # devices with programs that may not be told

    def take(self, news: ProbeNews) -> None:
        """One more look."""
        self.tracking, self.unseen = news.tracking, news.unseen
        self.call_sites = news.call_sites
        self.table_full |= news.table_full

    def compare(self, device: str, counted: ProbeCounters) -> None:
        """Are there programs that the table may have had no room for? The probe does not count those."""
        if self.table_full and (counted.cb_peak or counted.loads):
            self.lower_bound.add(device)

    @property
    def untracked(self) -> bool:
        """Is there, or may there be now, something that nobody has seen?"""
        return self.unseen > 0 or not self.tracking

    def anomalies(self, who: str, pid: int, device: str) -> Iterator[Anomaly]:
        """What a reader of the sums of one device must know."""
        if not self.tracking:
            text = f"{who}: tracking is switched off: what it allocates now is in no sum"
            yield Anomaly("untracked", text, pid)
        if self.unseen:
            buffers = "buffer was" if self.unseen == 1 else "buffers were"
            text = (
                f"{who}: {self.unseen:,} {buffers} allocated while tracking was off; what is alive of that"
                " is in no sum"
            )
            yield Anomaly("untracked", text, pid)
        told = "; ".join(self._beyond(device))
        if told:
            text = f"{who}: its probe's table is full: {told} (`ttmem run --live` makes more room)"
            yield Anomaly("probe_table", text, pid)

    def _beyond(self, device: str) -> Iterator[str]:
        if self.unlisted:
            buffers = "live buffer is" if self.unlisted == 1 else "live buffers are"
            yield f"{self.unlisted:,} {buffers} in all sums, but in lists together as one"
        if device in self.lower_bound:
            yield "circular buffers and kernels may be missing: CB, L1 used and kernel code are at least what is shown"


@dataclass(slots=True, eq=False)
class ProcessRecord:
    """A process that reported something, until it dies; or what one of its reporters said, as part of it."""

    index: int
    facts: ProcessFacts
    sources: set[str] = field(default_factory=set)
    connections: int = 0
    container_pid: int | None = None
    dropped: int = 0
    overflow: int = 0
    gaps: int = 0
    position: int = 0  # how many events of its source were accounted; of a probe: in its ring
    devices: dict[int, str] = field(default_factory=dict)  # logical id -> unique id
    declared: dict[int, DeviceDeclaration] = field(default_factory=dict)  # by logical id
    without_room: set[int] = field(
        default_factory=set
    )  # logical ids of devices that found no place
    incomplete: str | None = None  # why it must tell everything again
    strings: dict[int, str] = field(default_factory=dict)
    string_bytes: int = 0
    messages: dict[int, str] = field(default_factory=dict)  # of failed allocations, by time
    missing: tuple[str, ...] = ()  # what its probe cannot see
    probe: ProbeGaps = field(default_factory=ProbeGaps)
    binaries: dict[str, int | None] = field(default_factory=dict)  # in DRAM, as its probe saw them
    counted_as: ProcessRecord | None = None  # the account of the same process that counts instead
    reporter: str | None = None  # which of several connections of the process speaks here
    image: str | None = None  # the program that it ran then: `exec` begins another
    part_of: ProcessRecord | None = (
        None  # the first account of the process, if this is a further one
    )
    parts: list[ProcessRecord] = field(default_factory=list)  # the further ones, of the first

    @property
    def pid(self) -> int:
        """As the server's kernel numbers it."""
        return self.facts.pid

    @property
    def accounts(self) -> tuple[ProcessRecord, ...]:
        """All that was reported of the process over the same source: it adds up."""
        return (self, *self.parts)

    @property
    def title(self) -> str:
        """For sentences: 'pid 42 (python model.py)'."""
        program, _, arguments = (self.facts.command or "command unknown").partition(" ")
        command = f"{os.path.basename(program)} {arguments}".strip()
        return f"pid {self.pid} ({command if len(command) <= 60 else command[:59] + '…'})"

    @property
    def lost(self) -> int:
        """Events, or buffers that a client cannot tell again. What is beyond a probe's table is in its counters."""
        return self.dropped + (0 if "probe" in self.sources else self.overflow)

    def string_room(self, number: int, text: str) -> int | None:
        """How many bytes more it would take to keep a declared string; None if there is no room for it."""
        known = self.strings.get(number)  # a client says all of them again when it comes again
        grown = OF_A_STRING + getsizeof(text)
        if known is not None:
            grown -= OF_A_STRING + getsizeof(known)
        elif len(self.strings) >= MAX_STRINGS:
            return None
        return grown if self.string_bytes + grown <= MAX_STRING_BYTES else None


MAX_LEFT_BEHIND = 64
_ORDER = {"probe": 0, "socket": 1}


def held(row: AccountRow) -> Amounts:
    """What one process holds on one device, in the measure of the sums."""
    return Amounts.of_kinds(row.held, row.cb_used)


def holding(devices: Mapping[str, Amounts]) -> dict[str, Amounts]:
    """Only where it is anything."""
    return {unique_id: sums for unique_id, sums in devices.items() if sums.all}


_KEPT = ("process", "device")
_EITHER = ("cb_map_full", "cache_seen", "cache_entries_known")
_LATEST = ("ring_occupied", "ring_capacity", "ring_programs", "ring_time")  # the ring is one


def added_up(rows: list[AccountRow], processes: Mapping[int, ProcessRecord]) -> list[AccountRow]:
    """One row for each process and device: what several reporters of a process say adds up."""
    if not any(process.parts for process in processes.values()):
        return rows
    out: dict[tuple[int, int], AccountRow] = {}
    for row in rows:
        whole = processes[row.process].part_of or processes[row.process]
        at = (whole.index, row.device)
        row = row._replace(process=whole.index)
        out[at] = _sum(out[at], row) if at in out else row
    return list(out.values())


def _sum(one: AccountRow, other: AccountRow) -> AccountRow:
    later = max(one, other, key=lambda row: row.ring_time)
    columns: dict[str, Any] = {}
    for name, mine, its in zip(AccountRow._fields, one, other, strict=True):
        if name in _KEPT:
            columns[name] = mine
        elif name in _LATEST:
            columns[name] = getattr(later, name)
        elif isinstance(mine, int) and isinstance(its, int):
            columns[name] = max(mine, its) if name in _EITHER else mine + its
        elif isinstance(mine, tuple) and isinstance(its, tuple):
            pairs = [a + b for a, b in zip(mine, its, strict=True)]
            columns[name] = CounterColumns(*pairs) if name == "counters" else tuple(pairs)
    return AccountRow(**columns)


def process_list(
    books: Books, rows: Iterable[AccountRow], checks: Mapping[tuple[int, int], CrossCheck]
) -> Iterator[Process]:
    """Those that send events, then those that only counters name."""
    by_process: dict[int, dict[str, Amounts]] = {}
    for row in rows:
        by_process.setdefault(row.process, {})[books.devices[row.device].unique_id] = held(row)
    crossed: dict[int, dict[str, CrossCheck]] = {}
    for (process, device), check in checks.items():
        crossed.setdefault(process, {})[books.devices[device].unique_id] = check
    also = books.counters.sources(books.processes)
    kernels = books.counters.kernels(books.processes)
    counted = []
    for record in books.processes.values():
        if record.counted_as is None and record.part_of is None:
            counted.append(record)
        elif record.counted_as is not None:
            also.setdefault(record.counted_as.index, set()).update(record.sources)
    for record in (*counted, *books.counters.strangers(books.processes)):
        yield _process(
            record,
            by_process.get(record.index, {}),
            crossed.get(record.index, {}),
            also.get(record.index, set()),
            kernels.get(record.index, {}),
        )


def _process(
    record: ProcessRecord,
    devices: Mapping[str, Amounts],
    checks: Mapping[str, CrossCheck],
    also: set[str],
    kernels: Mapping[str, int],
) -> Process:
    return Process(
        pid=record.pid,
        start_time_ns=record.facts.start_time_ns,
        user=record.facts.user,
        command=record.facts.command,
        alive=True,
        sources=in_words(record.sources | also),
        connected=any(account.connections for account in record.accounts),
        devices=devices,
        dropped_events=sum(account.dropped for account in record.accounts),
        overflow=sum(account.overflow for account in record.accounts),
        container_pid=record.container_pid,
        cross_check=checks,
        kernels_counted=kernels,
        call_sites=record.probe.call_sites,
    )


def in_words(sources: Iterable[str]) -> tuple[str, ...]:
    """The better source first: 'probe', 'socket', 'shared memory v3'."""
    return tuple(sorted(sources, key=lambda source: (_ORDER.get(source, len(_ORDER)), source)))
