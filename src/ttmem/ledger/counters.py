"""The counters of stock ttnn: readings, whose they are, and how they add up with events."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping

from ttmem.events import Amounts, DeviceSample, Owner, ProcessSample, Remark
from ttmem.fast_dataclasses import dataclass, field
from ttmem.ledger.context import CounterContext, source_of
from ttmem.ledger.devices import MAX_DEVICES, DeviceRecord, DeviceRegister, made_up_id
from ttmem.ledger.processes import MAX_LEFT_BEHIND, ProcessRecord, holding
from ttmem.ledger.rows import Place, counter_row, differences, with_counters
from ttmem.procfs import ProcessFacts, is_alive, process_facts
from ttmem.snapshots import LeftBehind
from ttmem.wire.rows import AccountRow, DeviceRow

NOTHING = Amounts()

# pid, start time; where that is unknown, name and user
Identity = tuple[int, int | None, str | None, str | None]


@dataclass(slots=True)
class Account:
    """One process on one device."""

    process: ProcessRecord
    device: DeviceRecord
    sample: DeviceSample
    slot: ProcessSample
    _context: CounterContext | None = None  # made once for each reading

    @property
    def here(self) -> bool:
        """Whether its pid is one of this host."""
        return self.slot.owner is not Owner.ELSEWHERE

    def context(self, owner: ProcessRecord | None, odd: bool) -> CounterContext:
        """As plain values; `owner` is the account of the process that has events, if there is one."""
        index = self.process.index if owner is None else owner.index
        made = self._context
        if made is None or (made.process, made.has_events, made.odd) != (
            index,
            owner is not None,
            odd,
        ):
            made = self._context = CounterContext(
                index,
                self.device.index,
                self.slot.counters,
                self.sample.version,
                self.sample.counts_kernels,
                self.slot.updated_ns,
                self.slot.kernels,
                owner is not None,
                odd,
            )
        return made


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
        accounts: dict[int, dict[Identity, Account]] = {}  # by device
        # A file is evidence for its owner only: by the process and that user.
        dead: dict[tuple[Identity, str | None], dict[str, Amounts]] = {}
        names: dict[tuple[Identity, str | None], ProcessSample] = {}
        known, self._processes = self._processes, {}
        for device, sample in reading:
            source = source_of(sample.version)
            here = accounts.setdefault(device.index, {})
            for one in sample.processes:
                identity = _identity(one, sample.user)
                if one.owner.left:
                    held = dead.setdefault((identity, sample.user), {})
                    before = held.get(device.unique_id, NOTHING)
                    held[device.unique_id] = Amounts.total((before, one.counters))
                    names[identity, sample.user] = one
                if not one.owner.counts:
                    continue
                process = self._processes.get(identity)
                if process is None:
                    process = self._process(identity, one, sample.user, known)
                process.sources.add(source)
                account = here.get(identity)
                if account is None:
                    here[identity] = Account(process, device, sample, one)
                else:  # two slots of one process: a race of the runtime's
                    both = Amounts.total((account.slot.counters, one.counters))
                    account.slot = account.slot._replace(counters=both)
        self._deaths = {i: self._deaths.get(i) or self._seen_dying(i, known, now) for i, _ in dead}
        self.accounts = [account for some in accounts.values() for account in some.values()]
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
        """One that this reading has not named before."""
        process = known.get(identity)
        if process is None:
            self._numbered -= 1
            process = ProcessRecord(
                self._numbered, _facts(one, user), container_pid=one.container_pid
            )
        process.sources.clear()
        self._processes[identity] = process
        return process

    @staticmethod
    def _seen_dying(identity: Identity, known: Mapping[Identity, ProcessRecord], now: int) -> int:
        """Now, if it lived at the last reading; 0: nobody knows."""
        return now if any(key[0] == identity[0] for key in known) else 0


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
    return ProcessFacts(
        one.pid,
        one.start_time_ns,
        found.user,
        found.command or one.name,
        workload=found.workload,
    )


def _ghost(
    one: ProcessSample, devices: Mapping[str, Amounts], died: int | None, user: str | None
) -> LeftBehind:
    return LeftBehind(one.pid, one.name, died, devices, ghost=True, user=user)


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


def locate(
    samples: Samples, processes: Mapping[int, ProcessRecord]
) -> Iterator[tuple[ProcessRecord, int, DeviceRecord]]:
    """(process, number, device): the same process has a slot in the region that bears that number.

    Numbers are per process (`TT_VISIBLE_DEVICES`), so another process's device of that number proves
    nothing; and where two regions of a process bear the same number, neither does.
    """
    if not processes:
        return
    regions: dict[tuple[int, int], list[DeviceRecord]] = {}
    by_index = {}
    for account, process in list(owners(samples, processes)):
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
        self._register = register
        self._above: Counter[Place] = Counter()  # readings in a row that were above the events
        self._plain: tuple[list[Account], tuple[CounterContext, ...]] = [], ()

    def take(self, devices: Iterable[DeviceSample], remarks: Iterable[Remark], now: int) -> None:
        """A reading, in place of the one before."""
        found, beyond = self._register.sampled(devices)
        more = Remark("devices", f"{beyond:,} regions are beyond the {MAX_DEVICES} that are kept")
        self.samples.take(found, [*remarks, *([more] if beyond else [])], now)

    def contexts(self, processes: Mapping[int, ProcessRecord]) -> tuple[CounterContext, ...]:
        """The reading as plain values; `processes` send events."""
        if not processes:  # as on most hosts: asked four times for each snapshot
            accounts = self.samples.accounts
            if self._plain[0] is not accounts:
                self._plain = accounts, tuple(one.context(None, False) for one in accounts)
            return self._plain[1]
        return tuple(
            account.context(owner, self._lasting(owner, account.device))
            for account, owner in owners(self.samples, processes)
        )

    def _lasting(self, owner: ProcessRecord | None, device: DeviceRecord) -> bool:
        return owner is not None and self._above[owner.index, device.index] >= PATIENCE

    def compare(self, processes: Mapping[int, ProcessRecord], rows: Iterable[AccountRow]) -> None:
        """After each reading: counts how long the counters have been above the events."""
        if not processes:
            self._above.clear()
            return
        self._above = Counter(
            {
                (counter.process, counter.device): self._above[counter.process, counter.device] + 1
                for counter, difference in differences(self.contexts(processes), rows)
                if any(amount > 0 for amount in difference[:-1])  # without circular buffers
            }
        )

    def strangers(self, processes: Mapping[int, ProcessRecord]) -> list[ProcessRecord]:
        """Processes that only counters name."""
        found = {
            account.process.index: account.process
            for account, process in owners(self.samples, processes)
            if process is None
        }
        return list(found.values())

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
            counter_row(account.context(None, False))
            for account, owner in owners(self.samples, processes)
            if owner is None and account.device is device
        ]
        device.polled.begin_mixing(events, with_counters(events, others))

    def released(self, process: ProcessRecord) -> None:
        """The reading is older than the death of a process; it holds nothing from now on."""
        facts = process.facts
        if self.samples.accounts and not is_alive(facts.pid, facts.start_time_ns):
            self.samples.bury(facts.pid, facts.start_time_ns)
