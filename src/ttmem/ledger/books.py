"""The accounts with names: processes, devices and strings around the native ledger."""

from __future__ import annotations

import os
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ttmem.events import (
    EVENT_SIZE,
    NO_POSITION,
    Amounts,
    DeviceDeclaration,
    DeviceSample,
    Event,
    Remark,
)
from ttmem.events.record import of_source
from ttmem.fast_dataclasses import replace
from ttmem.ledger import anomalies
from ttmem.ledger.anomalies import Faults
from ttmem.ledger.build import build
from ttmem.ledger.context import Context, DeviceContext
from ttmem.ledger.counters import CounterBooks, locate, same
from ttmem.ledger.details import EVERYTHING, Details, Narrow, RecentEvents
from ttmem.ledger.devices import (
    FULL,
    MAX_LOGICAL_ID,
    DeviceDefaults,
    DeviceRecord,
    DeviceRegister,
    NoDefaults,
)
from ttmem.ledger.journal import Journal, JournaledLedger
from ttmem.ledger.peaks import with_peaks
from ttmem.ledger.probed import ProbedProcesses
from ttmem.ledger.processes import MAX_LEFT_BEHIND, ProcessRecord, holding
from ttmem.ledger.rows import CounterRow, device_sums, event_rows, held, with_counter_rows
from ttmem.ledger.shares import ACCOUNTS, TEXT, Limits, Shares
from ttmem.procfs import ProcessFacts
from ttmem.snapshots import Anomaly, LeftBehind, MemoryHistory, Snapshot
from ttmem.snapshots.detail import Names
from ttmem.wire.rows import AccountRow, DeviceRow, FindingRow, flat_rows

MAX_CORE_SETS = 16_384
Apply = Callable[[int, bytes, int, int, int], int]  # as `Ledger.apply`
MOST_LIVE = 1 << 22  # as in `native/module.cpp`
OF_A_CORE_SET = 256  # bytes
OF_A_DECLARATION = 2048


class DeviceUse(NamedTuple):
    """What is held on one device, and what is in its ring; unknown is None."""

    held: tuple[int, ...]  # by MemoryKind
    cb_used: int
    footprint: int | None
    l1_total: int | None
    ring_capacity: int | None
    ring_occupied: int | None
    ring_programs: int | None


class Books:
    """Every live thing of every process. `say(key, sentence)` hears what goes wrong; it limits repetition by key.

    `watchful`: counters are read all the time, so the highest reading is their peak.
    """

    def __init__(
        self,
        defaults: DeviceDefaults | None = None,
        say: Callable[[str, str], None] = lambda key, sentence: None,
        max_live: int = 4_000_000,
        watchful: bool = True,
    ) -> None:
        self.native = JournaledLedger(max_live, seed=int.from_bytes(os.urandom(8), "little"))
        self.max_live = min(max_live, MOST_LIVE)
        self.processes: dict[int, ProcessRecord] = {}
        self.limits = Limits(say)
        self._shares = Shares(self.limits)
        self._register = DeviceRegister(self.native, defaults or NoDefaults(), self._shares)
        self.devices = self._register.devices
        self.counters = CounterBooks(self._register)
        self.left_behind: deque[LeftBehind] = deque(maxlen=MAX_LEFT_BEHIND)
        self.rejected_outside = 0  # records that never became events
        self.dead_losses: Counter[str] = Counter()
        self._say = say
        self.watchful = watchful
        self._core_sets: dict[int, set[int]] = {}  # the numbers that each account has given
        self._rejected_seen = 0
        self._findings_said: set[tuple[int, int, int]] = set()
        self.recent = RecentEvents()
        self.probed = ProbedProcesses(self)
        self.faults = Faults(say)

    @property
    def journal(self) -> Journal | None:
        """Gets a record of everything that changes the native ledger; see `JournaledLedger.attach`."""
        return self.native.journal

    # -- processes -------------------------------------------------------------------------------------------

    def open_process(
        self, facts: ProcessFacts, source: str = "socket", part_of: ProcessRecord | None = None
    ) -> ProcessRecord:
        """A new account, of a new process or of one more reporter; identity is the caller's business."""
        index = self.native.open_process(self._shares.number(facts.user))
        process = ProcessRecord(index, facts, {source}, part_of=part_of)
        if part_of is not None:
            part_of.parts.append(process)
        process.counted_as = self.probed.overruled_by(facts)
        self.processes[process.index] = process
        return process

    def overrule(self, winner: ProcessRecord) -> None:
        """What other accounts have of the same process counts no more."""
        for process in self.processes.values():
            if process is not winner and same(
                process.facts, winner.pid, winner.facts.start_time_ns
            ):
                process.counted_as = winner
                self.empty(process)

    def release(self, process: ProcessRecord, now: int) -> LeftBehind | None:
        """A dead process holds nothing; what it held is kept for show, if it was anything."""
        rows = with_counter_rows(self._rows_of(process), self.counters.contexts(self.processes))
        had = {
            self.devices[row.device].unique_id: held(row)
            for row in rows
            if row.process == process.index
        }
        for account in process.accounts:
            self.close_account(account)
        for other in self.processes.values():
            if other.counted_as is process:
                other.counted_as = None
                other.incomplete = "the probe tells no more of this process"
        self.counters.released(process)
        if not (left_over := holding(had)):
            return None
        left = LeftBehind(
            process.pid, process.facts.command, now, left_over, user=process.facts.user
        )
        self.left_behind.append(left)
        return left

    def close_account(self, account: ProcessRecord) -> None:
        """Whatever it holds is gone."""
        self.native.release_process(account.index)
        del self.processes[account.index]
        user = account.facts.user
        sets = len(self._core_sets.pop(account.index, ()))
        text = account.string_bytes + sets * OF_A_CORE_SET
        self._shares.take(user, "names", -text - len(account.declared) * OF_A_DECLARATION, TEXT)
        self._shares.take(user, "accounts", -len(account.devices), ACCOUNTS)
        if account.part_of is not None:
            account.part_of.parts.remove(account)
        for device in self.devices:
            device.withdraw(account.index)
        self._findings_said = {said for said in self._findings_said if said[1] != account.index}
        self.dead_losses.update(dropped=account.lost, gaps=account.gaps)

    def live(self, process: ProcessRecord) -> int:
        """How many entries it has, in all its accounts."""
        return sum(self.native.process_live(account.index) for account in process.accounts)

    def empty(self, account: ProcessRecord) -> None:
        """What it reported so far is no more."""
        self.native.begin_resync(account.index)
        self.native.end_resync(account.index)

    def held(self) -> dict[int, dict[str, Amounts]]:
        """What each process holds on each device."""
        out: dict[int, dict[str, Amounts]] = {}
        for row in self.account_rows():
            out.setdefault(row.process, {})[self.devices[row.device].unique_id] = held(row)
        return out

    def rows_of(self, process: ProcessRecord) -> list[AccountRow]:
        """What one process has by its events, where it has any memory or kernel."""
        rows = self._rows_of(process)
        return [r for r in rows if any(r.counts) or r.cb_count or any(r.kernels)]

    def _rows_of(self, process: ProcessRecord) -> list[AccountRow]:
        found = b"".join(self.native.accounts(account.index) for account in process.accounts)
        return self._event_rows(found)

    def count_lost(self, process: ProcessRecord, dropped: int, overflow: int) -> None:
        """A client's own tally of what it could not send or remember; it only grows."""
        if dropped > process.dropped:
            process.gaps += 1
        process.dropped = max(process.dropped, dropped)
        process.overflow = max(process.overflow, overflow)

    # -- devices ---------------------------------------------------------------------------------------------

    def declare(
        self, process: ProcessRecord, declaration: DeviceDeclaration, by: str = "client"
    ) -> None:
        """A client says what its device is; ValueError if it cannot be one."""
        if declaration.logical_id > MAX_LOGICAL_ID:
            raise ValueError(f"logical id {declaration.logical_id} is above {MAX_LOGICAL_ID}")
        if declaration.logical_id not in process.declared and not self._shares.take(
            process.facts.user, "names", OF_A_DECLARATION, TEXT
        ):
            raise ValueError(f"user {process.facts.user} has declared too much")
        process.declared[declaration.logical_id] = declaration
        if not self._place(process, declaration, by):
            why = self._register.full.get(process.facts.user, FULL)
            raise ValueError(f"{why}; the declaration of device {declaration.logical_id} is kept")

    def _place(self, process: ProcessRecord, declaration: DeviceDeclaration, by: str) -> bool:
        number = declaration.logical_id
        record = self._register.declared(declaration, by, process.facts.user)
        if record is None or not self._may_bind(process, number):
            process.without_room.add(number)
            return False
        before = process.devices.get(number, record.unique_id)
        if before != record.unique_id and self.native.process_live(process.index):
            process.incomplete = f"device {number} is {record.unique_id}, no longer {before}"
        record.declare(process.index, declaration, by)
        self._bind(process, number, record)
        return True

    def _may_bind(self, process: ProcessRecord, logical_id: int) -> bool:
        """The account of a process on a device is one of those that its user may have."""
        return logical_id in process.devices or self._shares.take(
            process.facts.user, "accounts", 1, ACCOUNTS
        )

    def _bind(self, process: ProcessRecord, logical_id: int, record: DeviceRecord) -> None:
        self.native.bind(process.index, logical_id, record.index)
        if self.counters.samples.accounts and process.devices.get(logical_id) != record.unique_id:
            events = device_sums(self.native.devices(), ())[record.index]
            self.counters.begin_mixing(record, events, self.processes)
        process.devices[logical_id] = record.unique_id
        process.without_room.discard(logical_id)
        record.vacated = False

    def _bind_late(self, process: ProcessRecord, logical_id: int) -> bool:
        """For an event on a device that has no place yet: it was not declared, or there was no room."""
        declared = process.declared.get(logical_id)
        if declared is not None:
            return self._place(
                process, declared, "probe" if "probe" in process.sources else "client"
            )
        record = self._register.by_number(logical_id, process.facts.user)
        if record is not None and self._may_bind(process, logical_id):
            self._bind(process, logical_id, record)
            return True
        if logical_id <= MAX_LOGICAL_ID:
            process.without_room.add(logical_id)
        return False

    def incomplete(self) -> list[tuple[ProcessRecord, str]]:
        """Accounts that should be told again, now that there is room for what they lack, and why."""
        for process in self.processes.values():
            for logical_id in tuple(process.without_room):
                if self._bind_late(process, logical_id):
                    process.incomplete = f"there is room for device {logical_id} now"
        for row in self.findings():
            full = row.anomaly == anomalies.FindingCode.TABLE_FULL
            if full and self.native.process_room(row.process) >= min(
                row.times, max(1, self.max_live // 10)
            ):
                self.processes[row.process].incomplete = "the table of live entries has room again"
        return [
            (process, process.incomplete)
            for process in self.processes.values()
            if process.incomplete and process.counted_as is None
        ]

    def device_indices(self, process: ProcessRecord) -> dict[int, int]:
        """Where the devices of a process stand among all, by the numbers that it uses."""
        found = {number: self._register.find(id_) for number, id_ in process.devices.items()}
        return {number: record.index for number, record in found.items() if record is not None}

    def places(self, process: ProcessRecord) -> list[tuple[str, int]]:
        """Unique id and index of the devices that a process has opened."""
        found = (self._register.find(unique_id) for unique_id in set(process.devices.values()))
        return [(record.unique_id, record.index) for record in found if record is not None]

    # -- events ----------------------------------------------------------------------------------------------

    def apply(
        self,
        process: ProcessRecord,
        events: bytes,
        offset: int,
        length: int,
        now: int,
        apply: Apply | None = None,
    ) -> None:
        """Accounts a batch, in its order, and remembers it; of an overruled process it does neither."""
        if process.counted_as is None:
            first = process.position
            process.position += of_source(events, offset, offset + length)
            self.account(process, events, now, apply, offset, offset + length, first)
            if 2 * length >= len(
                events
            ):  # copying it takes longer than to keep all of it for a while
                self.recent.add(process, memoryview(events)[offset : offset + length], now)
            else:
                self.recent.add(process, events[offset : offset + length], now)

    def account(
        self,
        process: ProcessRecord,
        events: bytes,
        now: int,
        apply: Apply | None = None,
        at: int = 0,
        end: int | None = None,
        position: int = NO_POSITION,
    ) -> None:
        """Accounts events; no list of events shows them. `apply` stands in for that of the native ledger.

        `position` is that of the first event in its source; what is not part of the source has none.
        """
        apply = apply or self.native.apply
        now = max(0, now)  # before 1970 times are unknown
        end = len(events) if end is None else end
        begin, recorded = at, self.native.journal is not None
        while True:
            if recorded:
                self.native.position = min(position + of_source(events, begin, at), NO_POSITION)
            at += EVENT_SIZE * apply(process.index, events, at, end - at, now)
            if at + EVENT_SIZE > end:
                break
            logical_id = Event.unpack(events, at).device
            if not self._bind_late(process, logical_id):
                full = self._register.full.get(process.facts.user, FULL)
                self.reject(f"device/{process.pid}", _no_device(logical_id, process, full))
                at += EVENT_SIZE
        if self.native.rejected() != self._rejected_seen:
            self._say_rejections()

    def reject(self, key: str, sentence: str, records: int = 1) -> None:
        """Records that could not become events, or events on no device."""
        self.rejected_outside += records
        self._say(key, sentence)

    def define_cores(self, process: ProcessRecord, number: int, mask: int) -> None:
        """A client names a set of cores."""
        known = self._core_sets.setdefault(process.index, set())
        if number in known or (
            len(known) < MAX_CORE_SETS
            and self._shares.take(process.facts.user, "names", OF_A_CORE_SET, TEXT)
        ):
            known.add(number)
            self.native.define_cores(process.index, number, mask.to_bytes(128, "little"))

    def define_string(self, process: ProcessRecord, number: int, text: str) -> None:
        """Keeps a declared string while there is room; beyond it the name is unknown."""
        grown = process.string_room(number, text)
        if grown is not None and self._shares.take(process.facts.user, "names", grown, TEXT):
            process.strings[number] = text
            process.string_bytes += grown
            if self.journal is not None:
                self.journal.string(process.index, number, text)

    def _say_rejections(self) -> None:
        self._rejected_seen = self.native.rejected()
        for reason, index, record in self.native.take_rejections():
            process = self.processes[index]
            self._say(
                f"rejected/{process.pid}/{reason}",
                anomalies.rejection(reason, record, process.title),
            )

    # -- counters --------------------------------------------------------------------------------------------

    def sample(self, devices: Iterable[DeviceSample], remarks: Iterable[Remark], now: int) -> None:
        """Takes a reading of counters, in place of the one before."""
        self._register.full.clear()
        self.counters.take(devices, remarks, now)
        for process, logical_id, record in locate(self.counters.samples, self.processes):
            self._move(process, logical_id, record, now)
        rows = self.account_rows()
        self.counters.compare(self.processes, rows)
        events, sums = device_sums(self.native.devices(), ()), self._sums(rows)
        for device in self.devices:
            if device.sample is not None:
                device.polled.raise_to(sums[device.index], events[device.index], now)
        for row in rows:
            if isinstance(row, CounterRow) and any((*row.held, row.cb_used)):
                self.devices[row.device].counted = True

    def _move(
        self, process: ProcessRecord, logical_id: int, record: DeviceRecord, now: int
    ) -> None:
        """What a process reported of a number belongs to this device."""
        old = self._register.find(process.devices[logical_id])
        if old is not None and self.native.move_account(
            process.index, old.index, record.index, max(0, now)
        ):
            record.by_counters = False
            self._bind(process, logical_id, record)
            if (declared := old.by_process.get(process.index)) and old.declared_by:
                old.withdraw(process.index)
                record.declare(process.index, declared, old.declared_by)
            old.vacated = not any(row.device == old.index for row in self.account_rows())

    # -- questions -------------------------------------------------------------------------------------------

    def account_rows(self) -> list[AccountRow]:
        """What each process holds on each device, as rows: by its events, else by counters."""
        return with_counter_rows(self.event_rows(), self.counters.contexts(self.processes))

    def event_rows(self) -> list[AccountRow]:
        """What each process holds on each device by its events alone, whichever of its reporters told."""
        return self._event_rows(self.native.accounts())

    def _event_rows(self, data: bytes) -> list[AccountRow]:
        processes = self.processes.values()
        return event_rows(
            data,
            [device.unique_id for device in self.devices],
            {process.index: process.binaries for process in processes if process.binaries},
            {part.index: process.index for process in processes for part in process.parts},
        )

    def device_rows(self, rows: Iterable[AccountRow]) -> list[DeviceRow]:
        """Sums and peaks, by device index; `rows` are all accounts of this instant."""
        pairs = zip(self.devices, self._sums(rows), strict=True)
        return [with_peaks(row, device.polled.context())[0] for device, row in pairs]

    def _sums(self, rows: Iterable[AccountRow]) -> list[DeviceRow]:
        return device_sums(self.native.devices(), rows)

    def findings(self) -> list[FindingRow]:
        """Anomalies that live processes made."""
        return list(flat_rows(FindingRow, self.native.findings()))

    def tick(self, now: int) -> None:
        """Once a second: takes the history's sample, and says each new anomaly once."""
        self._register.full.clear()
        rows = self.account_rows() if self.counters.samples.accounts else []
        for device, row in zip(self.devices, self.device_rows(rows), strict=True):
            if device.shown:
                device.history.add(now, row)
        for row_ in self.findings():
            key = (row_.anomaly, row_.process, row_.device)
            if key not in self._findings_said:
                self._findings_said.add(key)
                process = self.processes[row_.process]
                anomaly = anomalies.finding_anomaly(row_, process.title, process.pid)
                self._say(
                    f"finding/{key}",
                    f"device {self.devices[row_.device].unique_id}: {anomaly.text}",
                )

    def reset_peak(self, unique_id: str | None = None) -> bool:
        """Peaks start again at what is held now; False if there is no such device."""
        chosen = [device for device in self.devices if unique_id in (None, device.unique_id)]
        sums = self._sums(self.account_rows())
        for device in chosen:
            self.native.reset_peak(device.index)
            device.polled.reset(sums[device.index])
            device.counted = device.l1_peak_missed = False
        return bool(chosen)

    def snapshot(self, now: int, host: Mapping[str, Any] | None = None) -> Snapshot:
        """Everything at this instant, without details."""
        found: list[str] = []

        def fault(what: str, problem: Exception) -> None:
            found.append(what)
            self.faults.note(what, problem)

        snapshot = build(self.native, self.context(host), now, fault)
        return replace(snapshot, remarks=self._remarks()) if found else snapshot

    def context(self, host: Mapping[str, Any] | None = None) -> Context:
        """What a snapshot needs besides the native ledger."""
        alive = list(self.processes.values())
        everyone = (*alive, *self.counters.strangers(self.processes))
        ghosts = map(self.probed.better, self.counters.ghosts(self.left_behind))
        return Context(
            host={"name": os.uname().nodename, **(host or {})},
            watchful=self.watchful,
            devices=tuple(self._device_contexts()),
            processes=tuple(process.context() for process in everyone),
            counters=self.counters.contexts(self.processes),
            left_behind=(*self.left_behind, *ghosts),
            remarks=self._remarks(),
            dropped=sum(process.lost for process in alive) + self.dead_losses["dropped"],
            gaps=sum(process.gaps for process in alive) + self.dead_losses["gaps"],
            rejected=self.rejected_outside,
        )

    def _device_contexts(self) -> Iterator[DeviceContext]:
        found: dict[int, list[Anomaly]] = defaultdict(list)
        for place, anomaly in self.probed.checks.odd(self.processes):
            found[place[1]].append(anomaly)
        for process in self.processes.values():
            for unique_id, index in self.places(process):
                found[index] += process.probe.anomalies(process.title, process.pid, unique_id)
        for device in self.devices:
            l1_map = device.l1_map
            base = l1_map.base if l1_map else None
            failed = self.probed.failures.of(device.unique_id, device.declaration, base)
            said = self._relevant(device.sample.remarks if device.sample else ())
            count = self.probed.failures.count(device.unique_id)
            yield device.context((*found[device.index], *failed, *said), count)

    def _remarks(self) -> tuple[Anomaly, ...]:
        said = self._relevant(self.counters.samples.remarks)
        return (*said, *self.faults.anomalies(), *self.limits.anomalies())

    def _relevant(self, remarks: Iterable[Remark]) -> Iterator[Anomaly]:
        for one in remarks:
            if not (one.of_silence and self.probed.watches(one.pid)):
                yield anomalies.remark_anomaly(one)

    def device(self, logical_id: int) -> tuple[DeviceDeclaration | None, DeviceUse | None]:
        """What is known of a number that clients use, and what is held on its device, if there is one."""
        found = (d for d in self.devices if d.logical_id == logical_id and d.shown)
        device = next(found, None)
        if device is None:
            return self._register.expected(logical_id), None
        return device.declaration, self._use(device)

    def _use(self, device: DeviceRecord) -> DeviceUse:
        """As a picture has it, without making one."""
        held, cb_used, footprint, time, occupied, ring, programs = self.native.usage(device.index)
        if any(account.device is device for account in self.counters.samples.accounts):
            sums = self._sums(self.account_rows())[device.index]
            held, cb_used = sums.held, sums.cb_used
        declared = device.declaration.ring_capacity
        return DeviceUse(
            held,
            cb_used,
            None if device.by_counters else footprint,
            device.declaration.l1_total or device.l1_capacity,
            declared if declared is not None or not time else ring or None,
            occupied if time else None,
            programs if time else None,
        )

    def device_count(self) -> int:
        """How many devices a monitor has to ask for that knows them by number only."""
        return self._register.count()

    def details(self, wanted: Sequence[str], narrow: Narrow = EVERYTHING) -> Details:
        """The lists that a snapshot of this instant may have."""
        return Details(
            self.native,
            self._names(),
            wanted,
            narrow,
            self.recent,
            self.history(narrow.device) if "history" in wanted else {},
        )

    def _names(self) -> Names:
        processes = self.processes.values()
        return Names(
            {process.index: process.pid for process in processes},
            {device.index: device.unique_id for device in self.devices},
            {process.index: process.strings for process in processes},
            {
                process.index: frozenset(process.probe.uncounted)
                for process in processes
                if process.probe.uncounted
            },
        )

    def history(self, unique_id: str | None = None) -> dict[str, MemoryHistory]:
        """The last hour of every device, or of one."""
        return {
            device.unique_id: device.history.columns()
            for device in self.devices
            if device.history and unique_id in (None, device.unique_id)
        }


def _no_device(logical_id: int, process: ProcessRecord, full: str) -> str:
    number = logical_id - (1 << 32) if logical_id >> 31 else logical_id
    possible = 0 <= number <= MAX_LOGICAL_ID
    why = full if possible else f"ids go from 0 to {MAX_LOGICAL_ID}"
    return f"event on device {number} rejected: {why}; from {process.title}"
