"""Makes a snapshot from the native ledger and the context, and from nothing else."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ttmem._native import Ledger
from ttmem.errors import BadInput
from ttmem.events import Amounts, KernelType, MemoryKind
from ttmem.hw import bus_of, find_board, galaxy_position
from ttmem.ledger.anomalies import (
    capacity_anomalies,
    cross_check_anomaly,
    finding_anomaly,
)
from ttmem.ledger.context import (
    Context,
    DeviceContext,
    ProcessContext,
    l1_capacity,
    l1_map,
    source_of,
)
from ttmem.ledger.peaks import L1, with_peaks
from ttmem.ledger.processes import in_words
from ttmem.ledger.provenance import device_provenance
from ttmem.ledger.rows import (
    RESIDENT_SINCE,
    AccountKey,
    CounterRow,
    device_sums,
    differences,
    event_rows,
    held,
    with_counter_rows,
)
from ttmem.snapshots import (
    Anomaly,
    CircularBuffers,
    CrossCheck,
    Device,
    Footprint,
    Kernels,
    Losses,
    Memory,
    MemoryUse,
    Process,
    Ring,
    Snapshot,
)
from ttmem.wire.rows import AccountRow, DeviceRow, FindingRow, flat_rows

Fault = Callable[[str, Exception], None]


def build(native: Ledger, context: Context, now: int, fault: Fault | None = None) -> Snapshot:
    """A snapshot of everything.

    A device that cannot be described is left out and passed to `fault`. Without `fault`, ledger and context come from a
    file: BadInput if they do not belong together.
    """
    if fault is not None:
        return _Builder(native, context).snapshot(now, fault)
    try:
        return _Builder(native, context).snapshot(now, None)
    except (LookupError, ValueError, TypeError, OverflowError) as problem:
        raise BadInput(f"the context does not belong to the ledger: {problem!r}") from problem


def account_rows(native: Ledger, context: Context) -> list[AccountRow]:
    """What each process holds on each device: by its events, else by counters."""
    ids = [device.unique_id for device in context.devices]
    accounts = [process for process in context.processes if process.index >= 0]
    binaries = {process.index: process.binaries for process in accounts if process.binaries}
    parts = {each.index: each.whole for each in accounts if each.whole != each.index}
    rows = event_rows(native.accounts(), ids, binaries, parts)
    return with_counter_rows(rows, context.counters)


class _Builder:
    def __init__(self, native: Ledger, context: Context) -> None:
        self.native = native
        self.context = context
        self.processes = {process.index: process for process in context.processes}
        self.rows = account_rows(native, context)
        self.checks: dict[AccountKey, CrossCheck] = {}
        self.odd: set[AccountKey] = set()
        for counter, difference in differences(context.counters, self.rows):
            place = (counter.process, counter.device)
            source = source_of(counter.version)
            self.checks[place] = CrossCheck(source, counter.amounts, difference, counter.updated_ns)
            if counter.odd:
                self.odd.add(place)

    def snapshot(self, now: int, fault: Fault | None) -> Snapshot:
        native, context = self.native, self.context
        return Snapshot(
            time_ns=now,
            host=context.host,
            devices=tuple(self._devices(fault)),
            processes=tuple(self._processes()),
            left_behind=context.left_behind,
            losses=Losses(
                dropped_events=native.dropped() + context.dropped,
                gaps=context.gaps,
                rejected_records=native.rejected() + context.rejected,
            ),
            remarks=context.remarks,
        )

    def _devices(self, fault: Fault | None) -> Iterator[Device]:
        accounts: dict[int, list[AccountRow]] = defaultdict(list)
        found: dict[int, list[Anomaly]] = defaultdict(list)
        for row in self.rows:
            accounts[row.device].append(row)
        for finding in flat_rows(FindingRow, self.native.findings()):
            process = self.processes[finding.process]
            found[finding.device].append(finding_anomaly(finding, process.title, process.pid))
        for place in self.checks:
            anomaly = cross_check_anomaly(self.checks[place], self.processes[place[0]])
            if place in self.odd and anomaly is not None:
                found[place[1]].append(anomaly)
        sums = device_sums(self.native.devices(), self.rows)
        for index, device in enumerate(self.context.devices):
            if device.shown:
                anomalies = (*found[index], *device.anomalies)
                try:
                    made = self._device(index, device, sums[index], accounts[index], anomalies)
                except Exception as problem:
                    if fault is None:
                        raise
                    fault(f"device {device.unique_id}", problem)
                else:
                    yield made

    def _device(
        self,
        index: int,
        device: DeviceContext,
        sums: DeviceRow,
        rows: list[AccountRow],
        found: Iterable[Anomaly],
    ) -> Device:
        sums, unknown = with_peaks(sums, device.peaks)
        peaks = unknown
        # Counters have no history: whoever reads them occasionally does not know what they were in between.
        if not self.context.watchful:
            by_counters = device.counted or _by_counters(device, rows)
            peaks = frozenset(range(L1 + 1) if by_counters else ())
        memory = self._memory(index, device, sums, rows, peaks)
        l1_missed = device.l1_peak_missed or L1 in peaks
        l1_peak = None if l1_missed else sums.l1_peak
        declared = device.declaration
        capacity = l1_capacity(declared)
        return Device(
            unique_id=device.unique_id,
            logical_id=device.logical_id,
            board=declared.board,
            arch=declared.arch,
            pci=declared.pci,
            grid=declared.grid,
            memory=memory,
            l1_used=sums.l1_used,
            l1_capacity=capacity,
            l1_capacity_default=None if capacity else declared.l1_capacity_default,
            l1_total=declared.l1_total,
            l1_peak=l1_peak,
            l1_peak_time_ns=None if l1_missed else sums.l1_peak_time or None,
            kernels=self._kernels(device, sums, rows),
            provenance=device_provenance(device, self.processes, rows, bool(unknown)),
            l1_map=l1_map(declared, device.one_layout),
            anomalies=(
                *capacity_anomalies(device, memory, sums, l1_peak, rows, self.processes),
                *found,
            ),
            failed_allocations=device.failed_allocations,
            remote=False if declared.pci and declared.remote is None else declared.remote,
            position=declared.position
            or galaxy_position(find_board(declared.board or ""), bus_of(declared.pci)),
        )

    def _memory(
        self,
        index: int,
        device: DeviceContext,
        sums: DeviceRow,
        rows: list[AccountRow],
        peaks_unknown: frozenset[int],
    ) -> Memory:
        counted = _by_counters(device, rows)
        seen = not any(self.processes[row.process].untracked for row in rows)

        def use(kind: MemoryKind) -> MemoryUse:
            capacity = device.declaration.banks(kind).capacity
            now = sums.held[kind]
            peak_known = kind not in peaks_unknown
            known = not counted and all(row.unreserved[kind] == 0 for row in rows)
            return MemoryUse(
                capacity=capacity,
                requested=sum(row.requested[kind] for row in rows),
                reserved=now if known else None,
                held=now,
                free=capacity - now if seen and capacity is not None and now <= capacity else None,
                largest_free=self._largest_free(index, device, kind)
                if seen and not counted
                else None,
                count=None if counted else sum(self._count(device, row, kind) for row in rows),
                peak=sums.peak[kind] if peak_known else None,
                peak_time_ns=sums.peak_time[kind] or None if peak_known else None,
            )

        return Memory(
            dram=use(MemoryKind.DRAM),
            l1=use(MemoryKind.L1),
            l1_small=use(MemoryKind.L1_SMALL),
            trace=use(MemoryKind.TRACE),
            cb=self._circular_buffers(index, device, rows),
        )

    def _count(self, device: DeviceContext, row: AccountRow, kind: MemoryKind) -> int:
        """Buffers that did not fit into a probe's table are one entry in all lists, but the probe has counted them."""
        return self.processes[row.process].alive.get(device.unique_id, row.counts)[kind]

    def _largest_free(self, index: int, device: DeviceContext, kind: MemoryKind) -> int | None:
        """The runtime's 'largest contiguous free per bank', times the number of banks."""
        banks, size, base = device.declaration.banks(kind)
        if not device.one_layout or base is None or size is None or not banks:
            return None
        hole = self.native.largest_free(index, kind, base, size, banks)
        return None if hole is None else hole * banks

    def _circular_buffers(
        self, index: int, device: DeviceContext, rows: list[AccountRow]
    ) -> CircularBuffers:
        placed = all(not row.cb_unplaced and not row.cb_map_full for row in rows)
        counted = _by_counters(device, rows)
        by_residency = device.sample is not None and device.sample.version >= RESIDENT_SINCE
        resident = placed and (by_residency or not counted) and self._residency_known(index, rows)
        by_some_method = device.sample is not None and device.sample.counts_kernels
        cached = placed and not ((by_residency or by_some_method) and counted)
        return CircularBuffers(
            resident=sum(row.cb_resident for row in rows) if resident else None,
            cached=sum(row.cb_cached for row in rows) if cached else None,
            demand=None if counted else sum(row.cb_demand for row in rows),
            dataflow=sum(row.cb_dataflow for row in rows) if placed and not counted else None,
            used=sum(row.cb_used for row in rows),
            count=None if counted else sum(row.cb_count for row in rows),
            shared=None
            if counted or any(row.cb_shared_unknown for row in rows)
            else sum(row.cb_shared for row in rows),
        )

    def _residency_known(self, device: int, rows: list[AccountRow]) -> bool:
        """Whether each core that has circular buffers of cached programs was seen running a program since."""
        events = [row.process for row in rows if not isinstance(row, CounterRow)]
        missed = {index for index in events if self.processes[index].missed}
        if not missed:
            return True
        resident = _union(row[2] for row in self.native.resident_map(device))
        cores = self.native.core_map(device)
        return not _union(row[1] for row in cores if row[0] in missed) & ~resident

    def _kernels(self, device: DeviceContext, sums: DeviceRow, rows: list[AccountRow]) -> Kernels:
        if device.by_counters:
            return _no_kernels(device)
        counters = sums.counters
        binaries_known = all(row.unknown_binaries == 0 for row in rows)
        contents_known = sums.unknown_contents == 0
        footprint = [sum(row.footprint[kind] for row in rows) for kind in KernelType]
        return Kernels(
            dram_binaries=sum(row.dram_binaries for row in rows) if binaries_known else None,
            distinct_binaries=sums.distinct if contents_known else None,
            distinct_binary_bytes=sums.distinct_bytes if contents_known else None,
            count=sum(sum(row.kernels) for row in rows),
            footprint=Footprint(*footprint),
            ring=_ring(device, rows),
            loads=counters.loads,
            unloads=counters.unloads,
            dispatches=counters.dispatches,
            cache_entries=_cache_entries(sums, rows),
            cache_hits=counters.hits if sums.cache_seen else None,
            cache_misses=counters.misses if sums.cache_seen else None,
            counted=device.sample.kernels if device.sample else None,
            partial=any(self._hides_kernels(device, row) for row in rows),
        )

    def _hides_kernels(self, device: DeviceContext, row: AccountRow) -> bool:
        """Whether the process has, or may have, kernels that were not reported."""
        process = self.processes[row.process]
        return (
            isinstance(row, CounterRow)
            or process.untracked
            or device.unique_id in process.lower_bound
        )

    def _processes(self) -> Iterator[Process]:
        """First the processes that send events, then those that only counters know."""
        ids = [device.unique_id for device in self.context.devices]
        devices: dict[int, dict[str, Amounts]] = defaultdict(dict)
        checks: dict[int, dict[str, CrossCheck]] = defaultdict(dict)
        kernels: dict[int, dict[str, int]] = defaultdict(dict)
        sources: dict[int, set[str]] = defaultdict(set)
        accounts: dict[int, list[ProcessContext]] = defaultdict(list)
        for row in self.rows:
            devices[row.process][ids[row.device]] = held(row)
        for (process, device), check in self.checks.items():
            checks[process][ids[device]] = check
        for counter in self.context.counters:
            if counter.has_events:
                sources[counter.process].add(source_of(counter.version))
            if counter.kernels is not None:
                kernels[counter.process][ids[counter.device]] = counter.kernels
        for account in self.context.processes:
            accounts[account.whole].append(account)
            if account.counted_as is not None:
                sources[account.counted_as].update(account.sources)
        for account in self.context.processes:
            if account.counted_as is None and account.whole == account.index:
                parts = accounts[account.index]
                yield Process(
                    pid=account.pid,
                    start_time_ns=account.start_time_ns,
                    user=account.user,
                    command=account.command,
                    alive=True,
                    sources=in_words({*account.sources, *sources[account.index]}),
                    connected=any(part.connected for part in parts),
                    devices=devices[account.index],
                    dropped_events=sum(part.dropped for part in parts),
                    overflow=sum(part.overflow for part in parts),
                    container_pid=account.container_pid,
                    cross_check=checks[account.index],
                    kernels_counted=kernels[account.index],
                    call_sites=account.call_sites,
                    position=_position_of(parts),
                    workload=account.workload,
                    earlier_unknown=account.missed and not account.dropped,
                )


def _position_of(parts: Iterable[ProcessContext]) -> int | None:
    """The number of events that were accounted from all its connections."""
    positions = [part.position for part in parts]
    known = [position for position in positions if position is not None]
    return sum(known) if known and len(known) == len(positions) else None


def _union(masks: Iterable[bytes]) -> int:
    union = 0
    for mask in masks:
        union |= int.from_bytes(mask, "little")
    return union


def _by_counters(device: DeviceContext, rows: list[AccountRow]) -> bool:
    """Whether part of it comes from counters, so that only sums of requested bytes are known."""
    return any(isinstance(row, CounterRow) for row in rows) or (device.by_counters and not rows)


def _cache_entries(sums: DeviceRow, rows: list[AccountRow]) -> int | None:
    """Known if hits and misses are, unless a process reports only those. A process that has ended has none."""
    told = [row for row in rows if row.cache_entries_known]
    silent = any(row.cache_seen and not row.cache_entries_known for row in rows)
    return (
        sum(row.cache_entries for row in told) if (told or sums.cache_seen) and not silent else None
    )


def _no_kernels(device: DeviceContext) -> Kernels:
    """Counters know nothing about kernels."""
    unknown: dict[str, Any] = dict.fromkeys(Kernels.__match_args__) | {
        "footprint": Footprint(None, None, None),
        "ring": _ring(device, []),
        "partial": False,
        "counted": device.sample.kernels if device.sample else None,
    }
    return Kernels(**unknown)


def _ring(device: DeviceContext, rows: list[AccountRow]) -> Ring:
    reported = [row for row in rows if row.ring_time]
    declared = device.declaration.ring_capacity
    if not reported:
        return Ring(declared, None, None, None, None)
    # There is one ring per core, so its contents are those of the last writer. Wraps and syncs add up.
    latest = max(reported, key=lambda row: row.ring_time)
    return Ring(
        capacity=declared if declared is not None else latest.ring_capacity or None,
        occupied=latest.ring_occupied,
        wraps=sum(row.ring_wraps for row in reported),
        syncs=sum(row.ring_syncs for row in reported),
        programs=latest.ring_programs,
    )
