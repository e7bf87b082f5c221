"""Accounts of processes on devices: names and limits around the native ledger."""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Callable, Iterable

from ttmem.events import (
    EVENT_SIZE,
    NO_POSITION,
    DeviceDeclaration,
    Event,
)
from ttmem.events.record import of_source
from ttmem.ledger import anomalies
from ttmem.ledger.counters import CounterBooks, same
from ttmem.ledger.details import RecentEvents
from ttmem.ledger.devices import DeviceRecord
from ttmem.ledger.journal import JournaledLedger
from ttmem.ledger.processes import MAX_LEFT_BEHIND, ProcessRecord, holding
from ttmem.ledger.register import FULL, MAX_LOGICAL_ID, DeviceDefaults, DeviceRegister, NoDefaults
from ttmem.ledger.rows import device_sums, event_rows, held, with_counter_rows
from ttmem.ledger.shares import ACCOUNTS, TEXT, Omissions, Say, Shares
from ttmem.procfs import ProcessFacts
from ttmem.snapshots import LeftBehind
from ttmem.wire.rows import AccountRow, FindingCode, FindingRow, flat_rows

MAX_CORE_SETS = 16_384
SECOND = 1_000_000_000
DAY = 86_400  # seconds; as if a process whose start is unknown had run for so long
MOST_EVENTS = (
    10_000_000  # that a process can have in a second; ttmem's own client has a tenth of that
)
Apply = Callable[[int, bytes, int, int, int, int], int]  # as `Ledger.apply`
MOST_LIVE = 1 << 22  # as MAX_LIVE in `native/ledger.hpp`
OF_A_CORE_SET = 256  # bytes
OF_A_DECLARATION = 2048


class Accounts:
    """Everything that is alive, by process.

    `say(key, sentence)` is called when something goes wrong; it limits repetition by key.
    """

    def __init__(self, defaults: DeviceDefaults | None, say: Say, max_live: int) -> None:
        self.native = JournaledLedger(max_live, seed=int.from_bytes(os.urandom(8), "little"))
        self.max_live = min(max_live, MOST_LIVE)
        self.processes: dict[int, ProcessRecord] = {}
        self.omissions = Omissions(say)
        self._shares = Shares(self.omissions)
        self._register = DeviceRegister(self.native, defaults or NoDefaults(), self._shares)
        self.devices = self._register.devices
        self.counters = CounterBooks(self._register, self.processes)
        self.left_behind: deque[LeftBehind] = deque(maxlen=MAX_LEFT_BEHIND)
        self.rejected_outside = 0  # records that never became events
        self.dead_losses: Counter[str] = Counter()
        self._say = say
        self._core_sets: dict[int, set[int]] = {}  # ids that each account has defined
        self._rejected_seen = 0
        self._findings_said: set[tuple[int, int, int]] = set()
        self.recent = RecentEvents()

    def open_process(
        self, facts: ProcessFacts, source: str = "socket", part_of: ProcessRecord | None = None
    ) -> ProcessRecord:
        """A new account, for a new process or for another connection of one. The caller has checked its identity."""
        index = self.native.open_process(self._shares.number(facts.user))
        process = ProcessRecord(index, facts, {source}, part_of=part_of)
        if part_of is not None:
            part_of.parts.append(process)
        self.processes[process.index] = process
        return process

    def overrule(self, winner: ProcessRecord) -> None:
        """From now on, the other accounts of the same process do not count."""
        for process in self.processes.values():
            if process is not winner and same(
                process.facts, winner.pid, winner.facts.start_time_ns
            ):
                process.counted_as = winner
                self.empty(process)

    def release(self, process: ProcessRecord, now: int) -> LeftBehind | None:
        """Frees everything that a dead process held. What it held is remembered, and shown as left behind."""
        rows = with_counter_rows(self._rows_of(process.accounts), self.counters.contexts())
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
                other.incomplete = "the probe no longer reports this process"
        self.counters.released(process.facts)
        if not (left_over := holding(had)):
            return None
        left = LeftBehind(
            process.pid, process.facts.command, now, left_over, user=process.facts.user
        )
        self.left_behind.append(left)
        return left

    def close_account(self, account: ProcessRecord) -> None:
        """Frees everything that the account holds."""
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
        """The number of live entries in all accounts of the process."""
        return sum(self.native.process_live(account.index) for account in process.accounts)

    def empty(self, account: ProcessRecord) -> None:
        """Discards what the process has reported so far."""
        self.native.begin_resync(account.index)
        self.native.end_resync(account.index)

    def rows_of(self, process: ProcessRecord) -> list[AccountRow]:
        """The rows of one process by its events, without empty ones."""
        rows = self._rows_of(process.accounts)
        return [r for r in rows if any(r.counts) or r.cb_count or any(r.kernels)]

    def _rows_of(self, accounts: Iterable[ProcessRecord]) -> list[AccountRow]:
        found = b"".join(self.native.accounts(account.index) for account in accounts)
        return self._event_rows(found) if found else []

    def count_lost(self, process: ProcessRecord, dropped: int, overflow: int, now: int) -> None:
        """Takes a client's own count of what it could not send or remember, as far as it had the time for that.

        The count only grows.
        """
        started = process.facts.start_time_ns
        age = DAY if started is None else max(1, (now - started) // SECOND)
        dropped, overflow = (min(count, age * MOST_EVENTS) for count in (dropped, overflow))
        if dropped > process.dropped:
            process.gaps += 1
        process.dropped = max(process.dropped, dropped)
        process.overflow = max(process.overflow, overflow)

    def declare(
        self, process: ProcessRecord, declaration: DeviceDeclaration, by: str = "client"
    ) -> None:
        """Takes a client's declaration of a device; ValueError if no device can be like that."""
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
            process.refused_devices.add(number)
            return False
        before = process.devices.get(number, record.unique_id)
        if before != record.unique_id and self.native.process_live(process.index):
            process.incomplete = f"device {number} is {record.unique_id}, no longer {before}"
        record.declare(process.index, self._shares.key(process.facts.user), declaration, by)
        self._bind(process, number, record)
        return True

    def _may_bind(self, process: ProcessRecord, logical_id: int) -> bool:
        return logical_id in process.devices or self._shares.take(
            process.facts.user, "accounts", 1, ACCOUNTS
        )

    def _bind(self, process: ProcessRecord, logical_id: int, record: DeviceRecord) -> None:
        self.native.bind(process.index, logical_id, record.index)
        if self.counters.accounts and process.devices.get(logical_id) != record.unique_id:
            events = device_sums(self.native.devices(), ())[record.index]
            self.counters.begin_mixing(record, events)
        record.open(process.index, self._shares.key(process.facts.user))
        if not record.l1_banks:
            self._register.tell_banks(record)
        process.devices[logical_id] = record.unique_id
        process.refused_devices.discard(logical_id)
        record.vacated = False

    def _bind_late(self, process: ProcessRecord, logical_id: int) -> bool:
        """Binds a device that an event names, but that was not declared or could not be bound before."""
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
            process.refused_devices.add(logical_id)
        return False

    def incomplete(self) -> list[tuple[ProcessRecord, str]]:
        """Accounts that should report everything again, now that the tables have space for it, and why."""
        for process in self.processes.values():
            for logical_id in tuple(process.refused_devices):
                if self._bind_late(process, logical_id):
                    process.incomplete = f"device {logical_id} fits into the table now"
        for row in self.findings():
            full = row.anomaly == FindingCode.TABLE_FULL
            if full and self.native.process_room(row.process) >= min(
                row.times, max(1, self.max_live // 10)
            ):
                self.processes[row.process].incomplete = "the table of live entries has space again"
        return [
            (process, process.incomplete)
            for process in self.processes.values()
            if process.incomplete and process.counted_as is None
        ]

    def device_indices(self, process: ProcessRecord) -> dict[int, int]:
        """Indices of a process's devices, by the numbers that the process uses."""
        found = {number: self._register.find(id_) for number, id_ in process.devices.items()}
        return {number: record.index for number, record in found.items() if record is not None}

    def apply(
        self,
        process: ProcessRecord,
        events: bytes,
        offset: int,
        length: int,
        now: int,
        apply: Apply | None = None,
    ) -> None:
        """Accounts a batch of events in order and keeps it for the event list. Overruled processes are ignored."""
        if process.counted_as is None:
            first = process.position
            process.position += of_source(events, offset, offset + length)
            self.account(process, events, now, apply, offset, offset + length, first)
            # Keeping all of it for a while is cheaper than copying more than half of it.
            if 2 * length >= len(events):
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
        """Accounts events without adding them to the event list; `apply` replaces that of the native ledger.

        `position` is that of the first event in its source; None for events that the source does not contain.
        """
        apply = apply or self.native.apply
        now = max(0, now)  # a time before 1970 means unknown
        end = len(events) if end is None else end
        begin = at
        while True:
            taken = of_source(events, begin, at) if at > begin else 0
            first = min(position + taken, NO_POSITION)
            at += EVENT_SIZE * apply(process.index, events, at, end - at, now, first)
            if at + EVENT_SIZE > end:
                break
            logical_id = Event.unpack(events, at).device
            if not self._bind_late(process, logical_id):
                full = self._register.full.get(process.facts.user, FULL)
                sentence = _no_device(logical_id, process, full)
                self.reject(f"device/{process.pid}", sentence, process.facts.user)
                at += EVENT_SIZE
        if self.native.rejected() != self._rejected_seen:
            self._say_rejections()

    def reject(self, key: str, sentence: str, user: str | None, records: int = 1) -> None:
        """Counts records of a user that could not be decoded, and events without a device."""
        self.rejected_outside += records
        self._say(key, sentence, user)

    def define_cores(self, process: ProcessRecord, number: int, mask: int) -> None:
        known = self._core_sets.setdefault(process.index, set())
        if number in known or (
            len(known) < MAX_CORE_SETS
            and self._shares.take(process.facts.user, "names", OF_A_CORE_SET, TEXT)
        ):
            known.add(number)
            self.native.define_cores(process.index, number, mask.to_bytes(128, "little"))

    def define_string(self, process: ProcessRecord, number: int, text: str) -> None:
        """Keeps a declared string while the user's share lasts. Beyond that, the name is unknown."""
        grown = process.string_cost(number, text)
        if grown is not None and self._shares.take(process.facts.user, "names", grown, TEXT):
            process.strings[number] = text
            process.string_bytes += grown
            self.native.string(process.index, number, text)

    def _say_rejections(self) -> None:
        self._rejected_seen = self.native.rejected()
        for reason, index, record in self.native.take_rejections():
            process = self.processes[index]
            self._say(
                f"rejected/{process.pid}/{reason}",
                anomalies.rejection(reason, record, process.title),
                process.facts.user,
            )

    def account_rows(self) -> list[AccountRow]:
        """What each process holds on each device: by its events, else by counters."""
        return with_counter_rows(self.event_rows(), self.counters.contexts())

    def event_rows(self) -> list[AccountRow]:
        """What each process holds on each device by events alone, from all of its connections."""
        return self._event_rows(self.native.accounts())

    def _event_rows(self, data: bytes) -> list[AccountRow]:
        processes = self.processes.values()
        return event_rows(
            data,
            [device.unique_id for device in self.devices],
            {process.index: process.binaries for process in processes if process.binaries},
            {part.index: process.index for process in processes for part in process.parts},
        )

    def findings(self) -> list[FindingRow]:
        """Anomalies caused by live processes."""
        return list(flat_rows(FindingRow, self.native.findings()))


def _no_device(logical_id: int, process: ProcessRecord, full: str) -> str:
    number = logical_id - (1 << 32) if logical_id >> 31 else logical_id
    possible = 0 <= number <= MAX_LOGICAL_ID
    why = full if possible else f"ids go from 0 to {MAX_LOGICAL_ID}"
    return f"event on device {number} rejected: {why}; from {process.title}"
