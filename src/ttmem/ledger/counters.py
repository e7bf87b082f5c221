"""The counters of stock ttnn: readings, whose they are, and how they add up with events."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import sub
from typing import TYPE_CHECKING

from ttmem.events import Amounts, DeviceSample, MemoryKind, Owner, ProcessSample, Remark
from ttmem.ledger.devices import MAX_DEVICES, DeviceRecord, DeviceRegister, made_up_id
from ttmem.ledger.processes import MAX_LEFT_BEHIND, ProcessRecord, holding
from ttmem.procfs import ProcessFacts, is_alive, process_facts
from ttmem.sizes import human
from ttmem.snapshots import Anomaly, CrossCheck, LeftBehind
from ttmem.wire.rows import AccountRow, DeviceRow, blank_row

if TYPE_CHECKING:
    from ttmem.ledger.books import Books


NOTHING = Amounts()
RESIDENT_SINCE = 4  # the layout whose circular buffers are those of the last dispatch

# pid, start time; where that is unknown, name and user
Identity = tuple[int, int | None, str | None, str | None]


class CounterRow(AccountRow):
    """What counters say of one process on one device: bytes asked for, and nothing else."""

    __slots__ = ()


_BLANK = blank_row(CounterRow)._replace(unreserved=(1,) * len(MemoryKind))
_PLACES = ("process", "device", "requested", "held", "cb_resident", "cb_cached", "cb_used")
# `_replace` takes four times as long, and a full host has 2,048 rows.
_PROCESS, _DEVICE, _REQUESTED, _HELD, _CB_RESIDENT, _CB_CACHED, _CB_USED = map(
    CounterRow._fields.index, _PLACES
)


@dataclass(slots=True)
class Account:
    """One process on one device."""

    process: ProcessRecord
    device: DeviceRecord
    sample: DeviceSample
    counters: Amounts
    updated_ns: int
    here: bool  # its pid is one of this host
    kernels: int | None = None  # by a kernel counter, in no sum

    _row: CounterRow | None = None  # made once for each reading

    def row(self, process: int) -> CounterRow:
        """As a row of that process."""
        if self._row is None or self._row.process != process:
            self._row = self._made(process)
        return self._row

    def _made(self, process: int) -> CounterRow:
        counters = self.counters
        held = [0] * len(MemoryKind)
        held[MemoryKind.DRAM] = counters.dram
        held[MemoryKind.L1] = counters.l1
        held[MemoryKind.L1_SMALL] = counters.l1_small
        held[MemoryKind.TRACE] = counters.trace
        resident = self.sample.version >= RESIDENT_SINCE
        values: list[object] = [*_BLANK]
        values[_PROCESS], values[_DEVICE] = process, self.device.index
        values[_REQUESTED] = values[_HELD] = tuple(held)
        values[_CB_USED] = counters.cb
        if not self.sample.counts_kernels:  # whose builds counted this or that
            values[_CB_RESIDENT if resident else _CB_CACHED] = counters.cb
        return CounterRow._make(values)


@dataclass(slots=True)
class Samples:
    """The latest reading; what went before matters only for who died since."""

    accounts: list[Account] = field(default_factory=list)
    ghosts: tuple[LeftBehind, ...] = ()
    remarks: tuple[Remark, ...] = ()
    _processes: dict[Identity, ProcessRecord] = field(default_factory=dict)
    _by_index: dict[int, ProcessRecord] = field(default_factory=dict)
    _deaths: dict[Identity, int] = field(default_factory=dict)
    _numbered: int = 0

    def take(
        self,
        reading: Iterable[tuple[DeviceRecord, DeviceSample]],
        remarks: Iterable[Remark],
        now: int,
    ) -> None:
        """Replaces the reading: who is not in it holds nothing."""
        accounts: dict[tuple[Identity, int], Account] = {}
        # A file is evidence for its owner only: by the process and that user.
        dead: dict[tuple[Identity, str | None], dict[str, Amounts]] = {}
        names: dict[tuple[Identity, str | None], ProcessSample] = {}
        known, self._processes = self._processes, {}
        for device, sample in reading:
            source = source_of(sample)
            for one in sample.processes:
                identity = _identity(one, sample.user)
                if one.owner.left:
                    held = dead.setdefault((identity, sample.user), {})
                    before = held.get(device.unique_id, NOTHING)
                    held[device.unique_id] = Amounts.total((before, one.counters))
                    names[identity, sample.user] = one
                if not one.owner.counts:
                    continue
                process = self._process(identity, one, sample.user, known)
                process.sources.add(source)
                at = (identity, device.index)
                account = accounts.get(at)
                if account is None:
                    here = one.owner is not Owner.ELSEWHERE
                    accounts[at] = Account(
                        process, device, sample, one.counters, one.updated_ns, here, one.kernels
                    )
                else:  # two slots of one process: a race of the runtime's
                    account.counters = Amounts.total((account.counters, one.counters))
        self._deaths = {i: self._deaths.get(i) or self._seen_dying(i, known, now) for i, _ in dead}
        self.accounts = list(accounts.values())
        self._by_index = {process.index: process for process in self._processes.values()}
        self.ghosts = tuple(
            _ghost(names[i, user], held, self._deaths[i] or None, user)
            for (i, user), held in dead.items()
        )
        self.remarks = tuple(remarks)

    def bury(self, pid: int, start_time_ns: int | None) -> None:
        """A process died after the reading was taken: it holds nothing from now on."""
        self.accounts = [a for a in self.accounts if not same(a.process.facts, pid, start_time_ns)]
        gone = [i for i, p in self._processes.items() if same(p.facts, pid, start_time_ns)]
        for identity in gone:
            del self._processes[identity]

    def known(self) -> Iterable[tuple[Identity, ProcessRecord]]:
        """All processes that the reading names."""
        return self._processes.items()

    def restore(self, identity: Identity, process: ProcessRecord) -> None:
        """A process that is known before the first reading."""
        self._processes[identity] = process

    def process(self, index: int) -> ProcessRecord:
        """By its (negative) index."""
        return self._by_index[index]

    def _process(
        self,
        identity: Identity,
        one: ProcessSample,
        user: str | None,
        known: Mapping[Identity, ProcessRecord],
    ) -> ProcessRecord:
        process = self._processes.get(identity) or known.get(identity)
        if process is None:
            self._numbered -= 1
            process = ProcessRecord(
                self._numbered, _facts(one, user), container_pid=one.container_pid
            )
        if identity not in self._processes:
            process.sources.clear()
            self._processes[identity] = process
        return process

    @staticmethod
    def _seen_dying(identity: Identity, known: Mapping[Identity, ProcessRecord], now: int) -> int:
        """Now, if it lived at the last reading; 0: nobody knows."""
        return now if any(key[0] == identity[0] for key in known) else 0


def source_of(sample: DeviceSample) -> str:
    """'shared memory v3'."""
    return f"shared memory v{sample.version}"


def same(facts: ProcessFacts, pid: int, start_time_ns: int | None) -> bool:
    """Is that this process? A start time that one side could not read is no difference."""
    either = None in (facts.start_time_ns, start_time_ns)
    return facts.pid == pid and (either or facts.start_time_ns == start_time_ns)


def _identity(one: ProcessSample, user: str | None) -> Identity:
    # Two containers may both have a process 17: what tells them apart is at most the name, and whose file it is.
    if one.owner is Owner.ELSEWHERE:
        return (one.pid, None, one.name, user)
    return (one.pid, one.start_time_ns, None, None)


def _facts(one: ProcessSample, user: str | None) -> ProcessFacts:
    """`user` owns the file, and all that it says of a process that cannot be seen, it says of that user's."""
    if one.owner is Owner.ELSEWHERE:
        return ProcessFacts(one.pid, None, user, one.name)
    found = process_facts(one.pid)
    return ProcessFacts(one.pid, one.start_time_ns, found.user, found.command or one.name)


def _ghost(
    one: ProcessSample, devices: Mapping[str, Amounts], died: int | None, user: str | None
) -> LeftBehind:
    return LeftBehind(one.pid, one.name, died, devices, ghost=True, user=user)


Place = tuple[int, int]  # process index, device index
PATIENCE = 3  # looks in a row: events and counters are not read at the same instant


def owners(
    samples: Samples, processes: Mapping[int, ProcessRecord]
) -> Iterator[tuple[Account, ProcessRecord | None]]:
    """Each account of the counters, with the process if it sends events too."""
    if not processes:
        yield from ((account, None) for account in samples.accounts)
        return
    by_pid: dict[int, list[ProcessRecord]] = defaultdict(list)
    for process in processes.values():
        if process.counted_as is None and process.part_of is None:
            by_pid[process.pid].append(process)
    for account in samples.accounts:
        facts = account.process.facts
        found = (
            p
            for p in (by_pid.get(facts.pid, ()) if account.here else ())
            if same(p.facts, facts.pid, facts.start_time_ns)
        )
        yield account, next(found, None)


def counter_rows(
    samples: Samples, processes: Mapping[int, ProcessRecord], rows: Iterable[AccountRow]
) -> list[CounterRow]:
    """What only the counters tell."""
    if not processes:
        return [account.row(account.process.index) for account in samples.accounts]
    told = {(row.process, row.device) for row in rows}
    out = []
    for account, process in owners(samples, processes):
        owner = account.process if process is None else process
        if (owner.index, account.device.index) not in told:
            out.append(account.row(owner.index))
    return out


def with_counters(row: DeviceRow, counted: Iterable[CounterRow]) -> DeviceRow:
    """The sums of a device, with what only the counters tell."""
    rows = list(counted)
    held = [sum(column) for column in zip(row.held, *(more.held for more in rows), strict=True)]
    cb_used = row.cb_used + sum(more.cb_used for more in rows)
    l1 = Amounts.of_kinds(held, cb_used).l1_used
    return row._replace(held=tuple(held), cb_used=cb_used, l1_used=l1)


class CrossChecks:
    """Where both tell of a process on a device: what the counters say, and whether that is odd."""

    def __init__(self) -> None:
        self._above: Counter[Place] = Counter()

    def look(
        self,
        samples: Samples,
        processes: Mapping[int, ProcessRecord],
        rows: Iterable[AccountRow],
    ) -> None:
        """One more reading: counts how long the counters have said more than the events."""
        above: Counter[Place] = Counter()
        for place, account, row in _both(samples, processes, rows):
            if any(
                amount > 0 for amount in _difference(account, row)[:-1]
            ):  # without circular buffers
                above[place] = self._above[place] + 1
        self._above = above

    def of(
        self,
        samples: Samples,
        processes: Mapping[int, ProcessRecord],
        rows: Iterable[AccountRow],
    ) -> dict[Place, CrossCheck]:
        """The cross-checks of this instant."""
        return {
            place: CrossCheck(
                source_of(account.sample),
                account.counters,
                _difference(account, row),
                account.updated_ns,
            )
            for place, account, row in _both(samples, processes, rows)
        }

    def anomaly(self, place: Place, check: CrossCheck, process: ProcessRecord) -> Anomaly | None:
        """Counters miss a lot, and events may be ahead of them. More than the events have is odd."""
        if self._above[place] < PATIENCE:
            return None
        # Without circular buffers: counters keep their highest value, or mean something else by them.
        amounts = check.difference._replace(cb=0).by_label()
        more = {kind: amount for kind, amount in amounts.items() if amount > 0}
        listed = ", ".join(f"{human(amount)} {kind}" for kind, amount in more.items())
        if not more:
            return None
        text = (
            f"{process.title}: {check.source} says {listed} more than its events, which count;"
            " it may hold buffers that are older than the server, or that its client does not report"
        )
        return Anomaly("cross_check", text, process.pid, sum(more.values()))


def _both(
    samples: Samples,
    processes: Mapping[int, ProcessRecord],
    rows: Iterable[AccountRow],
) -> Iterator[tuple[Place, Account, AccountRow]]:
    told = {(row.process, row.device): row for row in rows if not isinstance(row, CounterRow)}
    for account, process in owners(samples, processes):
        if process is not None:
            place = (process.index, account.device.index)
            if place in told:
                yield place, account, told[place]


def _difference(account: Account, row: AccountRow) -> Amounts:
    asked = Amounts.of_kinds(row.requested, row.cb_used)
    return Amounts._make(map(sub, account.counters, asked))


def locate(books: Books) -> Iterator[tuple[ProcessRecord, int, DeviceRecord]]:
    """(process, number, device): the same process has a slot in the region that bears that number.

    Numbers are per process (`TT_VISIBLE_DEVICES`), so another process's device of that number proves
    nothing; and where two regions of a process bear the same number, neither does.
    """
    regions: dict[tuple[int, int], list[DeviceRecord]] = {}
    by_index = {}
    for account, process in list(owners(books.counters.samples, books.processes)):
        number = account.sample.logical_id
        if process is not None and number is not None:
            regions.setdefault((process.index, number), []).append(account.device)
            by_index[process.index] = process
    for (index, number), found in regions.items():
        for part in by_index[index].accounts:
            if len(found) == 1 and part.devices.get(number) == made_up_id(number):
                yield part, number, found[0]


class CounterBooks:
    """What counters add to the rows of the native ledger."""

    def __init__(self, register: DeviceRegister) -> None:
        self.samples = Samples()
        self.checks = CrossChecks()
        self._register = register

    def take(self, devices: Iterable[DeviceSample], remarks: Iterable[Remark], now: int) -> None:
        """A reading, in place of the one before."""
        found, beyond = self._register.sampled(devices)
        more = Remark("devices", f"{beyond:,} regions are beyond the {MAX_DEVICES} that are kept")
        self.samples.take(found, [*remarks, *([more] if beyond else [])], now)

    def rows(
        self, processes: Mapping[int, ProcessRecord], rows: list[AccountRow]
    ) -> list[AccountRow]:
        """All rows: those of the events, and of the counters what the events do not tell."""
        if not self.samples.accounts:
            return rows
        return [*rows, *counter_rows(self.samples, processes, rows)]

    def sums(self, sums: list[DeviceRow], rows: Iterable[AccountRow]) -> list[DeviceRow]:
        """The sums of the devices, over all rows."""
        counted: dict[int, list[CounterRow]] = {}
        for row in rows:
            if isinstance(row, CounterRow):
                counted.setdefault(row.device, []).append(row)
        out = list(sums)
        for index, more in counted.items():
            out[index] = with_counters(out[index], more)
        return out

    def sources(self, processes: Mapping[int, ProcessRecord]) -> dict[int, set[str]]:
        """Of processes that send events: which counters name them too."""
        out: dict[int, set[str]] = {}
        for account, process in owners(self.samples, processes):
            if process is not None:
                out.setdefault(process.index, set()).add(source_of(account.sample))
        return out

    def kernels(self, processes: Mapping[int, ProcessRecord]) -> dict[int, dict[str, int]]:
        """Kernel counters by process and device, where a layout has them."""
        out: dict[int, dict[str, int]] = {}
        for account, process in owners(self.samples, processes):
            if account.kernels is not None:
                owner = account.process if process is None else process
                out.setdefault(owner.index, {})[account.device.unique_id] = account.kernels
        return out

    def strangers(self, processes: Mapping[int, ProcessRecord]) -> list[ProcessRecord]:
        """Processes that only counters name."""
        found = {
            account.process.index: account.process
            for account, process in owners(self.samples, processes)
            if process is None
        }
        return list(found.values())

    def cross_checks(
        self, processes: Mapping[int, ProcessRecord], rows: Iterable[AccountRow]
    ) -> dict[Place, CrossCheck]:
        """What the counters say where events tell."""
        return self.checks.of(self.samples, processes, rows)

    def odd(
        self, checks: Mapping[Place, CrossCheck], processes: Mapping[int, ProcessRecord]
    ) -> Iterator[tuple[Place, Anomaly]]:
        """The cross-checks that need an explanation."""
        for place, check in checks.items():
            anomaly = self.checks.anomaly(place, check, processes[place[0]])
            if anomaly is not None:
                yield place, anomaly

    def ghosts(self, known: Iterable[LeftBehind]) -> list[LeftBehind]:
        """Dead processes that the counters still name, besides those whose death was seen."""
        seen = {left.pid for left in known}
        found = [
            ghost
            for ghost in self.samples.ghosts
            if ghost.pid not in seen and holding(ghost.devices)
        ]
        found.sort(
            key=lambda ghost: -sum(held.dram + held.l1_used for held in ghost.devices.values())
        )
        return found[:MAX_LEFT_BEHIND]

    def begin_mixing(
        self, device: DeviceRecord, events: DeviceRow, processes: Mapping[int, ProcessRecord]
    ) -> None:
        """One more process of `processes` tells of the device by events."""
        others = [
            account.row(account.process.index)
            for account, owner in owners(self.samples, processes)
            if owner is None and account.device is device
        ]
        device.polled.begin_mixing(events, with_counters(events, others))

    def raise_peaks(
        self,
        devices: Iterable[DeviceRecord],
        events: list[DeviceRow],
        rows: Iterable[AccountRow],
        now: int,
    ) -> None:
        """One more look at the devices that have counters; `events` are the sums without them."""
        sums = self.sums(events, rows)
        for device in devices:
            if device.sample is not None:
                device.polled.raise_to(sums[device.index], events[device.index], now)

    def released(self, process: ProcessRecord) -> None:
        """The reading is older than the death of a process; it holds nothing from now on."""
        facts = process.facts
        if self.samples.accounts and not is_alive(facts.pid, facts.start_time_ns):
            self.samples.bury(facts.pid, facts.start_time_ns)
