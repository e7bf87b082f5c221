"""The side of the books that counters fill: the latest reading, its peaks, its cross-checks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ttmem.events import DeviceSample, Remark
from ttmem.ledger.device_record import DeviceRecord
from ttmem.ledger.device_register import MAX_DEVICES, DeviceRegister
from ttmem.ledger.merge import CrossChecks, Place, counter_rows, owners, with_counters
from ttmem.ledger.process_record import ProcessRecord
from ttmem.ledger.processes import MAX_LEFT_BEHIND, holding
from ttmem.ledger.samples import CounterRow, Samples, source_of
from ttmem.process_identity import is_alive
from ttmem.snapshots import Anomaly, CrossCheck, LeftBehind
from ttmem.wire.rows import AccountRow, DeviceRow


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

    def raise_peaks(self, devices: Iterable[DeviceRecord], sums: list[DeviceRow], now: int) -> None:
        """One more look at the devices that have counters."""
        for device in devices:
            if device.sample is not None:
                device.polled.raise_to(sums[device.index], now)

    def released(self, process: ProcessRecord) -> None:
        """The reading is older than the death of a process; it holds nothing from now on."""
        facts = process.facts
        if self.samples.accounts and not is_alive(facts.pid, facts.start_time_ns):
            self.samples.bury(facts.pid, facts.start_time_ns)
