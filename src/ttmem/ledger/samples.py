"""What counters say that processes hold, in rows like those of the events.

A process is known by (pid, start time), as everywhere. Its index is negative: the native ledger
numbers those that send events. One that does both is one process, see `Books.account_rows`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ttmem.events import Amounts, DeviceSample, MemoryKind, Owner, ProcessSample, Remark
from ttmem.ledger.device_record import DeviceRecord
from ttmem.ledger.process_record import ProcessRecord
from ttmem.process_identity import ProcessFacts, process_facts
from ttmem.snapshots import LeftBehind
from ttmem.wire.rows import AccountRow, blank_row

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
