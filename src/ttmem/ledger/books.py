"""The books: the accounts from all sources, and the questions they answer."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ttmem.events import (
    Amounts,
    DeviceDeclaration,
    DeviceSample,
    Remark,
)
from ttmem.events.probe_news import ProbeNews
from ttmem.fast_dataclasses import NamedTuple, replace
from ttmem.ledger import anomalies
from ttmem.ledger.accounts import Accounts
from ttmem.ledger.build import build
from ttmem.ledger.context import Context, DeviceContext, l1_capacity
from ttmem.ledger.details import Details
from ttmem.ledger.devices import DeviceRecord
from ttmem.ledger.peaks import with_peaks
from ttmem.ledger.probe_counters import unexplained
from ttmem.ledger.probed import ProbedProcesses
from ttmem.ledger.processes import ProcessRecord
from ttmem.ledger.register import DeviceDefaults
from ttmem.ledger.rows import device_sums, with_counter_rows
from ttmem.ledger.shares import Say
from ttmem.procfs import ProcessFacts
from ttmem.snapshots import Anomaly, MemoryHistory, Question, Snapshot
from ttmem.snapshots.native_rows import Names
from ttmem.wire.rows import AccountRow, DeviceRow


class DeviceUse(NamedTuple):
    """What is allocated on one device, and what its ring contains; None if unknown."""

    held: tuple[int, ...]  # by MemoryKind
    cb_used: int
    footprint: int | None
    l1_total: int | None
    ring_capacity: int | None
    ring_occupied: int | None
    ring_programs: int | None


class Books(Accounts):
    """The accounts from events, counters and probes together, at any time.

    `watchful`: counters are read all the time, so the highest reading is their peak.
    """

    def __init__(
        self,
        defaults: DeviceDefaults | None = None,
        say: Say = lambda key, sentence, user=None: None,
        max_live: int = 4_000_000,
        watchful: bool = True,
    ) -> None:
        super().__init__(defaults, say, max_live)
        self.watchful = watchful
        self.probed = ProbedProcesses(self, _held_at_the_end)

    def open_process(
        self, facts: ProcessFacts, source: str = "socket", part_of: ProcessRecord | None = None
    ) -> ProcessRecord:
        """Opens an account. A process that the probe already watches is counted by the probe."""
        process = super().open_process(facts, source, part_of)
        process.counted_as = self.probed.overruled_by(facts)
        return process

    def sample(self, devices: Iterable[DeviceSample], remarks: Iterable[Remark], now: int) -> None:
        """Replaces the last reading of the counters."""
        self._register.full.clear()
        self.counters.take(devices, remarks, now)
        for process, logical_id, record in self.counters.locate():
            self._move(process, logical_id, record, now)
        rows = self._counted_rows()
        self.counters.compare(rows)
        events, sums = device_sums(self.native.devices(), ()), self._sums(rows)
        for device in self.devices:
            told, total = events[device.index], sums[device.index]
            if device.sample is not None:
                device.polled.raise_to(total, told, now)
            if (told.held, told.cb_used) != (total.held, total.cb_used):
                device.counted = True

    def _move(
        self, process: ProcessRecord, logical_id: int, record: DeviceRecord, now: int
    ) -> None:
        """Assigns what a process has reported under a number to this device."""
        old = self._register.find(process.devices[logical_id])
        if old is not None and self.native.move_account(
            process.index, old.index, record.index, max(0, now)
        ):
            record.by_counters = False
            self._bind(process, logical_id, record)
            if (declared := old.withdraw(process.index)) is not None:
                record.declare(process.index, self._shares.key(process.facts.user), *declared)
            old.vacated = not any(row.device == old.index for row in self.account_rows())

    def device_rows(self, rows: Iterable[AccountRow]) -> list[DeviceRow]:
        """Sums and peaks by device index; `rows` are those of processes with counters, or more."""
        pairs = zip(self.devices, self._sums(rows), strict=True)
        return [with_peaks(row, device.polled.context())[0] for device, row in pairs]

    def _counted_rows(self) -> list[AccountRow]:
        """The current accounts of processes that have counters: others are in the native sums of a device."""
        counted = self.counters.contexts()
        known = (self.processes.get(index) for index in {each.process for each in counted})
        accounts = [account for process in known if process for account in process.accounts]
        return with_counter_rows(self._rows_of(accounts), counted)

    def _sums(self, rows: Iterable[AccountRow]) -> list[DeviceRow]:
        return device_sums(self.native.devices(), rows)

    def tick(self, now: int) -> None:
        """To be called once a second: adds a sample to the history, and logs each new anomaly once."""
        self._register.full.clear()
        self._register.tell_changed_banks()
        rows = self._counted_rows()
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
                    process.facts.user,
                )

    def reset_peak(self, unique_id: str | None = None) -> bool:
        """Resets peaks to what is allocated now; False if there is no such device."""
        chosen = [device for device in self.devices if unique_id in (None, device.unique_id)]
        sums = self._sums(self._counted_rows())
        for device in chosen:
            self.native.reset_peak(device.index)
            device.polled.reset(sums[device.index])
            device.counted = device.l1_peak_missed = False
        return bool(chosen)

    def snapshot(self, now: int, host: Mapping[str, Any] | None = None) -> Snapshot:
        """A snapshot without details."""
        found: list[str] = []

        def fault(what: str, problem: Exception) -> None:
            found.append(what)
            self.omissions.fault(what, problem)

        snapshot = build(self.native, self.context(host), now, fault)
        return replace(snapshot, remarks=self._remarks()) if found else snapshot

    def context(self, host: Mapping[str, Any] | None = None) -> Context:
        """What a snapshot needs besides the native ledger."""
        alive = list(self.processes.values())
        everyone = (*alive, *self.counters.strangers())
        ghosts = map(self.probed.better, self.counters.ghosts(self.left_behind))
        return Context(
            host={"name": os.uname().nodename, **(host or {})},
            watchful=self.watchful,
            devices=tuple(self._device_contexts()),
            processes=tuple(process.context() for process in everyone),
            counters=self.counters.contexts(),
            left_behind=(*self.left_behind, *ghosts),
            remarks=self._remarks(),
            dropped=sum(process.lost for process in alive) + self.dead_losses["dropped"],
            gaps=sum(process.gaps for process in alive) + self.dead_losses["gaps"],
            rejected=self.rejected_outside,
        )

    def _device_contexts(self) -> Iterator[DeviceContext]:
        found: dict[int, list[Anomaly]] = defaultdict(list)
        for process in self.processes.values():
            if process.probe.doubts:
                for index, anomaly in unexplained(process):
                    found[index].append(anomaly)
        for device in self.devices:
            for account, what in device.effective.ignored:
                who = self.processes[account]
                ignored = anomalies.disputed(who.title, who.facts.user, who.pid, what)
                found[device.index].append(ignored)
        for process in self.processes.values():
            if not process.probe.has_anomalies:
                continue
            for index in set(self.device_indices(process).values()):
                unique_id = self.devices[index].unique_id
                found[index] += process.probe.anomalies(process.title, process.pid, unique_id)
        for device in self.devices:
            layout = device.effective.one_layout
            failed = self.probed.failures.of(device.unique_id, device.declaration, layout)
            said = self._relevant(device.sample.remarks if device.sample else ())
            count = self.probed.failures.count(device.unique_id)
            yield device.context((*found[device.index], *failed, *said), count)

    def _remarks(self) -> tuple[Anomaly, ...]:
        said = self._relevant(self.counters.remarks)
        return (*said, *self.omissions.anomalies())

    def _relevant(self, remarks: Iterable[Remark]) -> Iterator[Anomaly]:
        for remark in remarks:
            if not (remark.of_silence and self.probed.watches(remark.pid)):
                yield anomalies.remark_anomaly(remark)

    def device(self, logical_id: int) -> tuple[DeviceDeclaration | None, DeviceUse | None]:
        """The declaration and use of the device that clients know by that number; None if unknown."""
        found = (d for d in self.devices if d.logical_id == logical_id and d.shown)
        device = next(found, None)
        if device is None:
            return self._register.expected(logical_id), None
        return device.declaration, self._use(device)

    def _use(self, device: DeviceRecord) -> DeviceUse:
        """The figures of a snapshot, without making one."""
        held, cb_used, footprint, time, occupied, ring, programs = self.native.usage(device.index)
        if any(account.device is device for account in self.counters.accounts):
            sums = self._sums(self._counted_rows())[device.index]
            held, cb_used = sums.held, sums.cb_used
        declared = device.declaration.ring_capacity
        return DeviceUse(
            held,
            cb_used,
            None if device.by_counters else footprint,
            device.declaration.l1_total or l1_capacity(device.declaration),
            declared if declared is not None or not time else ring or None,
            occupied if time else None,
            programs if time else None,
        )

    def device_count(self) -> int:
        """How many devices a client should ask for that knows them only by number."""
        return self._register.count()

    def details(self, question: Question) -> Details:
        """The lists that a snapshot may include."""
        return Details(
            self.native,
            self._names(),
            question,
            self.recent,
            self.history(question.device) if "history" in question.detail else {},
            {
                index: process.facts.user
                for index, process in self.processes.items()
                if process.facts.user is not None and self._shares.limited(process.facts.user)
            },
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
        """The last hour of all devices, or of one."""
        return {
            device.unique_id: device.history.columns()
            for device in self.devices
            if device.history and unique_id in (None, device.unique_id)
        }


def _held_at_the_end(news: ProbeNews) -> dict[str, Amounts] | None:
    """What a process held when it ended, by its last report; None if nothing."""
    ended = Books().probed.take([news], 0)
    return dict(ended[0][1].devices) if ended else None
