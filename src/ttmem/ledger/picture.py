"""Makes a snapshot out of the rows of the native ledger."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ttmem.events import DeviceDeclaration, KernelType, MemoryKind, Remark
from ttmem.hw import bus_of, find_board, galaxy_position
from ttmem.ledger.anomalies import (
    finding_anomaly,
    over_capacity,
    peak_over_capacity,
    remark_anomaly,
)
from ttmem.ledger.counters import RESIDENT_SINCE, CounterRow, Place
from ttmem.ledger.devices import DeviceRecord
from ttmem.ledger.peaks import L1
from ttmem.ledger.probed import residency_known
from ttmem.ledger.processes import held, process_list
from ttmem.ledger.provenance import device_provenance
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
    Ring,
    Snapshot,
)
from ttmem.wire.rows import AccountRow, DeviceRow, FindingRow

if TYPE_CHECKING:
    from ttmem.ledger.books import Books


def build(books: Books, now: int, host: dict[str, Any]) -> Snapshot:
    """Everything at this instant."""
    rows = books.account_rows()
    alive = list(books.processes.values())
    losses = Losses(
        dropped_events=books.native.dropped()
        + sum(p.lost for p in alive)
        + books.dead_losses["dropped"],
        gaps=sum(p.gaps for p in alive) + books.dead_losses["gaps"],
        rejected_records=books.native.rejected() + books.rejected_outside,
    )
    checks = books.counters.cross_checks(books.processes, rows)
    devices = tuple(describe(books, books.devices, rows, checks))
    return Snapshot(
        time_ns=now,
        host={"name": os.uname().nodename, **host},
        devices=devices,
        processes=tuple(process_list(books, rows, checks)),
        left_behind=(
            *books.left_behind,
            *map(books.probed.better, books.counters.ghosts(books.left_behind)),
        ),
        losses=losses,
        remarks=(
            *_remarks(books, books.counters.samples.remarks),
            *books.faults.anomalies(),
            *books.limits.anomalies(),
        ),
    )


def describe(
    books: Books,
    wanted: Iterable[DeviceRecord],
    rows: list[AccountRow],
    checks: Mapping[Place, CrossCheck],
) -> Iterator[Device]:
    """The wanted devices, from the rows of all."""
    accounts: dict[int, list[AccountRow]] = defaultdict(list)
    findings: dict[int, list[FindingRow]] = defaultdict(list)
    for row in rows:
        accounts[row.device].append(row)
    for finding in books.findings():
        findings[finding.device].append(finding)
    sums = books.device_rows(rows)
    odd: dict[int, list[Anomaly]] = defaultdict(list)
    for place, anomaly in books.counters.odd(checks, books.processes):
        odd[place[1]].append(anomaly)
    for place, anomaly in books.probed.checks.odd(books.processes):
        odd[place[1]].append(anomaly)
    for process in books.processes.values():
        for unique_id, index in books.places(process):
            odd[index] += process.probe.anomalies(process.title, process.pid, unique_id)
    for record in wanted:
        at = record.index
        if record.shown:
            l1_map = record.l1_map
            base = l1_map.base if l1_map else None
            failed = books.probed.failures.of(record.unique_id, record.declaration, base)
            said = record.sample.remarks if record.sample else ()
            found = [*_findings(books, findings[at]), *odd[at], *failed, *_remarks(books, said)]
            try:
                device = _device(books, record, sums[at], accounts[at], found)
            except Exception as problem:
                books.faults.note(f"device {record.unique_id}", problem)
                continue
            yield device


def _device(
    books: Books,
    record: DeviceRecord,
    sums: DeviceRow,
    rows: list[AccountRow],
    found: list[Anomaly],
) -> Device:
    declared = record.declaration
    memory = _memory(books, record, sums, rows)
    l1_missed = record.l1_peak_missed or not _peak_known(books, record, rows, L1)
    l1_peak = None if l1_missed else sums.l1_peak
    return Device(
        unique_id=record.unique_id,
        logical_id=record.logical_id,
        board=declared.board,
        arch=declared.arch,
        pci=declared.pci,
        grid=declared.grid,
        memory=memory,
        l1_used=sums.l1_used,
        l1_capacity=record.l1_capacity,
        l1_capacity_default=None if record.l1_capacity else declared.l1_capacity_default,
        l1_total=declared.l1_total,
        l1_peak=l1_peak,
        l1_peak_time_ns=None if l1_missed else sums.l1_peak_time or None,
        kernels=_kernels(books, record, sums, rows),
        provenance=device_provenance(books, record, rows),
        l1_map=record.l1_map,
        anomalies=(*_over_capacity(books, record, memory, sums, l1_peak, rows), *found),
        remote=False if declared.pci and declared.remote is None else declared.remote,
        position=declared.position or _position(declared),
    )


def _position(declared: DeviceDeclaration) -> str | None:
    return galaxy_position(find_board(declared.board or ""), bus_of(declared.pci))


def _memory(books: Books, record: DeviceRecord, sums: DeviceRow, rows: list[AccountRow]) -> Memory:
    counted = counts_only(record, rows)
    seen = not any(books.owner(row.process).probe.untracked for row in rows)

    def use(kind: MemoryKind) -> MemoryUse:
        capacity = record.capacity(kind)
        now = sums.held[kind]
        peak_known = _peak_known(books, record, rows, kind)
        known = not counted and all(row.unreserved[kind] == 0 for row in rows)
        return MemoryUse(
            capacity=capacity,
            requested=sum(row.requested[kind] for row in rows),
            reserved=now if known else None,
            held=now,
            free=capacity - now if seen and capacity is not None and now <= capacity else None,
            largest_free=_largest_free(books, record, kind) if seen and not counted else None,
            count=None if counted else sum(_count(books, record, row, kind) for row in rows),
            peak=sums.peak[kind] if peak_known else None,
            peak_time_ns=sums.peak_time[kind] or None if peak_known else None,
        )

    return Memory(
        dram=use(MemoryKind.DRAM),
        l1=use(MemoryKind.L1),
        l1_small=use(MemoryKind.L1_SMALL),
        trace=use(MemoryKind.TRACE),
        cb=_circular_buffers(books, record, rows),
    )


def _count(books: Books, record: DeviceRecord, row: AccountRow, kind: MemoryKind) -> int:
    """Buffers beyond a probe's table are one entry in all lists, but the probe has counted them."""
    return books.owner(row.process).probe.alive.get(record.unique_id, row.counts)[kind]


def _largest_free(books: Books, record: DeviceRecord, kind: MemoryKind) -> int | None:
    """What the runtime's memory view calls 'largest contiguous free per bank', in all banks together."""
    region = record.region(kind)
    if region is None:
        return None
    hole = books.native.largest_free(record.index, kind, *region)
    return None if hole is None else hole * region.banks


def counts_only(record: DeviceRecord, rows: list[AccountRow]) -> bool:
    """Do counters tell of some of it, so that more than sums of requested bytes cannot be known?"""
    return any(isinstance(row, CounterRow) for row in rows) or (record.by_counters and not rows)


def _peak_known(books: Books, record: DeviceRecord, rows: list[AccountRow], kind: int) -> bool:
    """Counters have no past: who looks now and then cannot tell what they said in between."""
    if books.watchful:
        return kind not in record.polled.unknown
    return not (record.counted or counts_only(record, rows))


def _circular_buffers(
    books: Books, record: DeviceRecord, rows: list[AccountRow]
) -> CircularBuffers:
    placed = all(not row.cb_unplaced and not row.cb_map_full for row in rows)
    counted = counts_only(record, rows)
    by_residency = record.sample is not None and record.sample.version >= RESIDENT_SINCE
    resident = placed and (by_residency or not counted) and _residency_known(books, record, rows)
    by_some_method = record.sample is not None and record.sample.counts_kernels
    cached = placed and not ((by_residency or by_some_method) and counted)
    return CircularBuffers(
        resident=sum(row.cb_resident for row in rows) if resident else None,
        cached=sum(row.cb_cached for row in rows) if cached else None,
        demand=None if counted else sum(row.cb_demand for row in rows),
        dataflow=sum(row.cb_dataflow for row in rows) if placed and not counted else None,
        used=sum(row.cb_used for row in rows),
        count=None if counted else sum(row.cb_count for row in rows),
    )


def _residency_known(books: Books, record: DeviceRecord, rows: list[AccountRow]) -> bool:
    told = [books.processes[row.process] for row in rows if not isinstance(row, CounterRow)]
    return all(residency_known(books, process, record.index) for process in told)


def _kernels(
    books: Books, record: DeviceRecord, sums: DeviceRow, rows: list[AccountRow]
) -> Kernels:
    if record.by_counters:
        return _no_kernels(record)
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
        ring=_ring(record, rows),
        loads=counters.loads,
        unloads=counters.unloads,
        dispatches=counters.dispatches,
        cache_entries=_cache_entries(sums, rows),
        cache_hits=counters.hits if sums.cache_seen else None,
        cache_misses=counters.misses if sums.cache_seen else None,
        counted=record.sample.kernels if record.sample else None,
        partial=any(_hides_kernels(books, record, row) for row in rows),
    )


def _hides_kernels(books: Books, record: DeviceRecord, row: AccountRow) -> bool:
    """Has that process, or may it have, kernels that nobody has told of?"""
    if isinstance(row, CounterRow):
        return True
    probe = books.processes[row.process].probe
    return probe.untracked or record.unique_id in probe.lower_bound


def _cache_entries(sums: DeviceRow, rows: list[AccountRow]) -> int | None:
    """Known where hits and misses are, unless somebody tells of those alone; whoever is gone has none."""
    told = [row for row in rows if row.cache_entries_known]
    silent = any(row.cache_seen and not row.cache_entries_known for row in rows)
    return (
        sum(row.cache_entries for row in told) if (told or sums.cache_seen) and not silent else None
    )


def _no_kernels(record: DeviceRecord) -> Kernels:
    """Counters do not know kernels."""
    return Kernels(
        dram_binaries=None,
        distinct_binaries=None,
        distinct_binary_bytes=None,
        count=None,
        footprint=Footprint(None, None, None),
        ring=_ring(record, []),
        loads=None,
        unloads=None,
        dispatches=None,
        cache_entries=None,
        cache_hits=None,
        cache_misses=None,
        counted=record.sample.kernels if record.sample else None,
    )


def _ring(record: DeviceRecord, rows: list[AccountRow]) -> Ring:
    reported = [row for row in rows if row.ring_time]
    declared = record.declaration.ring_capacity
    if not reported:
        return Ring(declared, None, None, None, None)
    # The ring is one piece of hardware: who wrote last says what is in it. Wraps and syncs happened to each.
    latest = max(reported, key=lambda row: row.ring_time)
    return Ring(
        capacity=declared if declared is not None else latest.ring_capacity or None,
        occupied=latest.ring_occupied,
        wraps=sum(row.ring_wraps for row in reported),
        syncs=sum(row.ring_syncs for row in reported),
        programs=latest.ring_programs,
    )


def _over_capacity(
    books: Books,
    record: DeviceRecord,
    memory: Memory,
    sums: DeviceRow,
    l1_peak: int | None,
    rows: list[AccountRow],
) -> list[Anomaly]:
    out = []
    for kind, use in (
        (MemoryKind.DRAM, memory.dram),
        (MemoryKind.TRACE, memory.trace),
        (MemoryKind.L1_SMALL, memory.l1_small),
        (MemoryKind.L1, memory.l1),
    ):
        if use.capacity is None:
            continue
        if use.held > use.capacity:
            culprit = _culprit(books, rows, [row.held[kind] for row in rows])
            out.append(over_capacity(kind.name, use.held, use.capacity, culprit, 0))
        elif use.peak is not None and use.peak > use.capacity:
            largest = record.largest.get(kind, 0)
            out.append(peak_over_capacity(kind.name, use.peak, use.capacity, largest))
    # Where it is unknown how the device was opened, there is still what it cannot have more than.
    l1 = record.l1_capacity if record.l1_capacity is not None else record.declaration.l1_most
    if l1 is not None and sums.l1_used > l1:
        by_demand = sum(row.cb_demand for row in rows if row.cb_unplaced or row.cb_map_full)
        culprit = _culprit(books, rows, [held(row).l1_used for row in rows])
        anomaly = over_capacity(_L1_USED, sums.l1_used, l1, culprit, by_demand)
        if not by_demand and memory.cb.used and memory.l1.held:
            anomaly = replace(anomaly, text=anomaly.text + _BOTH_COUNT)
        out.append(anomaly)
    elif l1 is not None and l1_peak is not None and l1_peak > l1:
        anomaly = peak_over_capacity(_L1_USED, l1_peak, l1)
        out.append(replace(anomaly, text=anomaly.text + _BOTH_COUNT))
    return out


_L1_USED = "L1 with L1_SMALL and circular buffers"
_BOTH_COUNT = "; L1 buffers may lie where cached programs have circular buffers, and both count"


def _culprit(books: Books, rows: list[AccountRow], shares: Sequence[int]) -> tuple[str, int, int]:
    most, row = max(zip(shares, rows, strict=True), key=lambda pair: pair[0])
    process = books.owner(row.process)
    return process.title, process.pid, most


def _remarks(books: Books, remarks: Iterable[Remark]) -> Iterator[Anomaly]:
    for one in remarks:
        if not (one.of_silence and books.probed.watches(one.pid)):
            yield remark_anomaly(one)


def _findings(books: Books, rows: list[FindingRow]) -> list[Anomaly]:
    owners = [(row, books.processes[row.process]) for row in rows]
    return [finding_anomaly(row, process.title, process.pid) for row, process in owners]
