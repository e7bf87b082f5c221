"""The counters of stock ttnn: readings, their owners, and how they add up with events."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping

from ttmem.events import Amounts, DeviceSample, Owner, ProcessSample, Remark
from ttmem.fast_dataclasses import dataclass
from ttmem.ledger.context import CounterContext, source_of
from ttmem.ledger.devices import DeviceRecord, made_up_id
from ttmem.ledger.processes import MAX_LEFT_BEHIND, ProcessRecord, holding
from ttmem.ledger.register import MAX_DEVICES, DeviceRegister
from ttmem.ledger.rows import AccountKey, counter_row, differences, with_counters
from ttmem.procfs import (
    ProcessFacts,
    command_line,
    is_alive,
    user_id,
    user_name,
    workload_of,
)
from ttmem.snapshots import LeftBehind
from ttmem.wire.rows import AccountRow, DeviceRow

NOTHING = Amounts()

# pid and start time; if that is unknown, name and user
Identity = tuple[int, int | None, str | None, str | None]
# A dead process; a file is evidence only about its owner's processes, so the user is part of the key.
Slots = tuple[Identity, str | None]


@dataclass(slots=True)
class Account:
    process: ProcessRecord
    device: DeviceRecord
    sample: DeviceSample
    slot: ProcessSample
    _context: CounterContext | None = None  # made once per reading

    def context(self, owner: ProcessRecord | None, odd: bool) -> CounterContext:
        """As plain values; `owner` is the account of the process with events, if there is one."""
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


PATIENCE = 3  # readings in a row: events and counters are not read at the same instant


class CounterBooks:
    """The latest reading, and what it adds to the rows of the native ledger. `processes` send events.

    The reading before only matters for processes that died since.
    """

    def __init__(self, register: DeviceRegister, processes: Mapping[int, ProcessRecord]) -> None:
        self.accounts: list[Account] = []
        self.remarks: tuple[Remark, ...] = ()
        self._register = register
        self._senders = processes
        self._processes: dict[Identity, ProcessRecord] = {}  # whose slots count
        self._ghosts: tuple[LeftBehind, ...] = ()
        self._deaths: dict[Identity, int] = {}
        self._commands: dict[Slots, str | None] = {}
        self._numbered = 0
        self._above: Counter[AccountKey] = Counter()  # readings in a row that exceeded the events
        self._plain: tuple[list[Account], tuple[CounterContext, ...]] = [], ()

    def take(self, devices: Iterable[DeviceSample], remarks: Iterable[Remark], now: int) -> None:
        """Replaces the last reading: processes that are not in it hold nothing."""
        reading, beyond = self._register.sampled(devices)
        more = Remark("devices", f"{beyond:,} regions are left out: {MAX_DEVICES} is the limit")
        self.remarks = (*remarks, *([more] if beyond else []))
        accounts: dict[int, dict[Identity, Account]] = {}  # by device
        dead: dict[Slots, dict[str, Amounts]] = {}
        names: dict[Slots, ProcessSample] = {}
        known, self._processes = self._processes, {}
        for device, sample in reading:
            source = source_of(sample.version)
            here = accounts.setdefault(device.index, {})
            for slot in sample.processes:
                identity = _identity(slot, sample.user)
                if slot.owner.left:
                    held = dead.setdefault((identity, sample.user), {})
                    before = held.get(device.unique_id, NOTHING)
                    held[device.unique_id] = Amounts.total((before, slot.counters))
                    names[identity, sample.user] = slot
                if not slot.owner.counts:
                    continue
                process = self._processes.get(identity)
                if process is None:
                    process = self._process(identity, slot, sample.user, known)
                process.sources.add(source)
                account = here.get(identity)
                if account is None:
                    here[identity] = Account(process, device, sample, slot)
                else:  # two slots of one process: a race in the runtime
                    both = Amounts.total((account.slot.counters, slot.counters))
                    account.slot = account.slot._replace(counters=both)
        self._deaths = {i: self._deaths.get(i) or _seen_dying(i, known, now) for i, _ in dead}
        self._commands = {of: self._commands.get(of) or _last_command(of, known) for of in dead}
        self.accounts = [account for some in accounts.values() for account in some.values()]
        self._ghosts = tuple(
            LeftBehind(
                pid=names[of].pid,
                command=self._commands[of] or names[of].name,
                died_ns=self._deaths[of[0]] or None,
                devices=held,
                ghost=True,
                user=of[1],
            )
            for of, held in dead.items()
        )

    def _process(
        self,
        identity: Identity,
        slot: ProcessSample,
        user: str | None,
        known: Mapping[Identity, ProcessRecord],
    ) -> ProcessRecord:
        """A process that is new in this reading."""
        process = known.get(identity)
        if process is None:
            self._numbered -= 1
            process = ProcessRecord(
                self._numbered, _facts(slot, user), container_pid=slot.container_pid
            )
        process.sources.clear()
        self._processes[identity] = process
        return process

    def contexts(self) -> tuple[CounterContext, ...]:
        """The reading as plain values."""
        if not self._senders:  # as on most hosts; this is called four times per snapshot
            accounts = self.accounts
            if self._plain[0] is not accounts:
                self._plain = accounts, tuple(account.context(None, False) for account in accounts)
            return self._plain[1]
        return tuple(
            account.context(owner, self._lasting(owner, account.device))
            for account, owner in self._owners()
        )

    def _lasting(self, owner: ProcessRecord | None, device: DeviceRecord) -> bool:
        return owner is not None and self._above[owner.index, device.index] >= PATIENCE

    def compare(self, rows: Iterable[AccountRow]) -> None:
        """After each reading: counts for how long the counters have exceeded the events."""
        if not self._senders:
            self._above.clear()
            return
        self._above = Counter(
            {
                (counter.process, counter.device): self._above[counter.process, counter.device] + 1
                for counter, difference in differences(self.contexts(), rows)
                if any(amount > 0 for amount in difference[:-1])  # without circular buffers
            }
        )

    def strangers(self) -> list[ProcessRecord]:
        """Processes that only counters know: those that hold something, or could."""
        if not self._senders:
            return list(self._processes.values())
        found = {
            account.process.index: account.process
            for account, process in self._owners()
            if process is None
        }
        return list(found.values())

    def ghosts(self, known: Iterable[LeftBehind]) -> list[LeftBehind]:
        """Dead processes that the counters still list, except those whose death was observed."""
        seen = {left.pid for left in known}
        found = [
            ghost for ghost in self._ghosts if ghost.pid not in seen and holding(ghost.devices)
        ]
        found.sort(
            key=lambda ghost: -sum(held.dram + held.l1_used for held in ghost.devices.values())
        )
        return found[:MAX_LEFT_BEHIND]

    def begin_mixing(self, device: DeviceRecord, events: DeviceRow) -> None:
        """One more process reports the device by events."""
        others = [
            counter_row(account.context(None, False))
            for account, owner in self._owners()
            if owner is None and account.device is device
        ]
        device.polled.begin_mixing(events, with_counters(events, others))

    def released(self, facts: ProcessFacts) -> None:
        """Drops a process that died after the reading was taken."""
        if not self.accounts or is_alive(facts.pid, facts.start_time_ns):
            return
        self.accounts = [
            a for a in self.accounts if not same(a.process.facts, facts.pid, facts.start_time_ns)
        ]
        self._processes = {
            identity: process
            for identity, process in self._processes.items()
            if not same(process.facts, facts.pid, facts.start_time_ns)
        }

    def _owners(self) -> Iterator[tuple[Account, ProcessRecord | None]]:
        """Each account of the counters, with the process if it also sends events."""
        if not (self._senders and self.accounts):
            yield from ((account, None) for account in self.accounts)
            return
        pids = {account.process.facts.pid for account in self.accounts}
        by_pid: dict[int, list[ProcessRecord]] = defaultdict(list)
        for process in self._senders.values():
            if process.facts.pid in pids and process.counted_as is None and process.part_of is None:
                by_pid[process.pid].append(process)
        for account in self.accounts:
            facts = account.process.facts
            found = (
                p
                for p in by_pid.get(facts.pid, ())
                if account.slot.owner is not Owner.ELSEWHERE  # its pid is not one of this host
                and same(p.facts, facts.pid, facts.start_time_ns)
            )
            yield account, next(found, None)

    def locate(self) -> Iterator[tuple[ProcessRecord, int, DeviceRecord]]:
        """(process, number, device) where the process has a slot in the counter file with that device number.

        Numbers are per process (`TT_VISIBLE_DEVICES`), so another process's device with that number proves nothing. If
        two files of a process have the same number, neither counts.
        """
        regions: dict[tuple[int, int], list[DeviceRecord]] = {}
        for account, process in self._owners() if self._senders else ():
            number = account.sample.logical_id
            if process is not None and number is not None:
                regions.setdefault((process.index, number), []).append(account.device)
        for (index, number), found in regions.items():
            for part in self._senders[index].accounts:
                if len(found) == 1 and part.devices.get(number) == made_up_id(number):
                    yield part, number, found[0]


def _seen_dying(identity: Identity, known: Mapping[Identity, ProcessRecord], now: int) -> int:
    """Now, if it was alive at the last reading; 0 if unknown."""
    return now if any(key[0] == identity[0] for key in known) else 0


def same(facts: ProcessFacts, pid: int, start_time_ns: int | None) -> bool:
    """Whether both are the same process. A start time that one side could not read makes no difference."""
    either = None in (facts.start_time_ns, start_time_ns)
    return facts.pid == pid and (either or facts.start_time_ns == start_time_ns)


def _identity(process: ProcessSample, user: str | None) -> Identity:
    # Two containers may both have a process 17; only its name and the owner of the file can tell them apart.
    if process.owner is Owner.ELSEWHERE:
        return (process.pid, None, process.name, user)
    return (process.pid, process.start_time_ns, None, None)


def _facts(process: ProcessSample, user: str | None) -> ProcessFacts:
    """`user` owns the file. What the file says about a process that cannot be seen is attributed to that user."""
    if process.owner is Owner.ELSEWHERE:
        return ProcessFacts(process.pid, None, user, process.name)
    if process.owner is not Owner.LIVE:  # a live one is that user's: the source has compared them
        user = user_name(user_id(process.pid))
    command = command_line(process.pid) or process.name
    return ProcessFacts(
        process.pid, process.start_time_ns, user, command, workload=workload_of(process.pid)
    )


def _last_command(of: Slots, known: Mapping[Identity, ProcessRecord]) -> str | None:
    """Of a dead process that was alive at the last reading; its slot only has its name."""
    (pid, *_), user = of
    found = (one.facts for key, one in known.items() if key[0] == pid and one.facts.user == user)
    return next((facts.command for facts in found), None)
