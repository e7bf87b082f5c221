"""Makes a snapshot out of the rows of the native ledger."""

from __future__ import annotations

import socket
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ttmem.events import KernelType, MemoryKind
from ttmem.ledger.anomalies import finding_anomaly, over_capacity
from ttmem.ledger.device_record import DeviceRecord
from ttmem.snapshots import (
    Anomaly,
    CircularBuffers,
    Device,
    Footprint,
    Held,
    Kernels,
    Losses,
    Memory,
    MemoryUse,
    Process,
    Provenance,
    Ring,
    Snapshot,
)
from ttmem.wire.rows import AccountRow, DeviceRow, FindingRow

if TYPE_CHECKING:
    from ttmem.ledger.books import Books


def build(books: Books, now: int, host: dict[str, Any]) -> Snapshot:
    """Everything at this instant."""
    rows = books.account_rows()
    by_process: dict[int, dict[str, Held]] = {}
    for row in rows:
        by_process.setdefault(row.process, {})[books.devices[row.device].unique_id] = held(row)
    devices = tuple(describe(books, books.devices, rows))
    processes = tuple(
        Process(
            pid=process.pid,
            start_time_ns=process.facts.start_time_ns,
            user=process.facts.user,
            command=process.facts.command,
            alive=True,
            sources=tuple(sorted(process.sources)),
            connected=process.connections > 0,
            devices=by_process.get(process.index, {}),
            dropped_events=process.dropped,
            overflow=process.overflow,
            container_pid=process.container_pid,
        )
        for process in books.processes.values()
    )
    alive = list(books.processes.values())
    losses = Losses(
        dropped_events=books.native.dropped()
        + sum(p.dropped + p.overflow for p in alive)
        + books.dead_losses["dropped"],
        gaps=sum(p.gaps for p in alive) + books.dead_losses["gaps"],
        rejected_records=books.native.rejected() + books.rejected_outside,
    )
    names = {"name": socket.gethostname(), **host}
    return Snapshot(now, names, devices, processes, tuple(books.left_behind), losses)


def describe(
    books: Books, wanted: Iterable[DeviceRecord], rows: Iterable[AccountRow]
) -> Iterator[Device]:
    """The wanted devices, from the rows of all."""
    accounts: dict[int, list[AccountRow]] = defaultdict(list)
    findings: dict[int, list[FindingRow]] = defaultdict(list)
    for row in rows:
        accounts[row.device].append(row)
    for finding in books.findings():
        findings[finding.device].append(finding)
    sums = books.device_rows()
    for record in wanted:
        at = record.index
        yield _device(books, record, sums[at], accounts[at], findings[at])


def held(row: AccountRow) -> Held:
    """What one process holds on one device, in the measure of the sums."""
    kinds = row.held
    return Held(
        dram=kinds[MemoryKind.DRAM],
        l1=kinds[MemoryKind.L1],
        l1_small=kinds[MemoryKind.L1_SMALL],
        trace=kinds[MemoryKind.TRACE],
        cb=row.cb_used,
    )


def _device(
    books: Books,
    record: DeviceRecord,
    sums: DeviceRow,
    rows: list[AccountRow],
    findings: list[FindingRow],
) -> Device:
    declared = record.declaration
    memory = _memory(books, record, sums, rows)
    return Device(
        unique_id=record.unique_id,
        logical_id=declared.logical_id,
        board=declared.board,
        arch=declared.arch,
        pci=declared.pci,
        grid=declared.grid,
        memory=memory,
        l1_used=sums.l1_used,
        l1_capacity=record.l1_capacity,
        l1_total=declared.l1_total,
        l1_peak=sums.l1_peak,
        l1_peak_time_ns=sums.l1_peak_time or None,
        kernels=_kernels(record, sums, rows),
        provenance=_provenance(books, record, rows),
        l1_map=record.l1_map,
        anomalies=(*_over_capacity(books, record, memory, sums, rows), *_findings(books, findings)),
    )


def _memory(
    books: Books, record: DeviceRecord, sums: DeviceRow, rows: list[AccountRow]
) -> Memory:
    def use(kind: MemoryKind) -> MemoryUse:
        capacity = record.capacity(kind)
        now = sums.held[kind]
        known = all(row.unreserved[kind] == 0 for row in rows)
        return MemoryUse(
            capacity=capacity,
            requested=sum(row.requested[kind] for row in rows),
            reserved=now if known else None,
            held=now,
            free=capacity - now if capacity is not None and now <= capacity else None,
            largest_free=_largest_free(books, record, kind),
            count=sum(row.counts[kind] for row in rows),
            peak=sums.peak[kind],
            peak_time_ns=sums.peak_time[kind] or None,
        )

    return Memory(
        dram=use(MemoryKind.DRAM),
        l1=use(MemoryKind.L1),
        l1_small=use(MemoryKind.L1_SMALL),
        trace=use(MemoryKind.TRACE),
        cb=_circular_buffers(rows),
    )


def _largest_free(books: Books, record: DeviceRecord, kind: MemoryKind) -> int | None:
    """What the runtime's memory view calls 'largest contiguous free per bank', in all banks together."""
    region = record.region(kind)
    if region is None:
        return None
    hole = books.native.largest_free(record.index, kind, *region)
    return None if hole is None else hole * region.banks


def _circular_buffers(rows: list[AccountRow]) -> CircularBuffers:
    placed = all(not row.cb_unplaced and not row.cb_map_full for row in rows)
    return CircularBuffers(
        resident=sum(row.cb_resident for row in rows) if placed else None,
        cached=sum(row.cb_cached for row in rows) if placed else None,
        demand=sum(row.cb_demand for row in rows),
        dataflow=sum(row.cb_dataflow for row in rows) if placed else None,
        used=sum(row.cb_used for row in rows),
        count=sum(row.cb_count for row in rows),
    )


def _kernels(record: DeviceRecord, sums: DeviceRow, rows: list[AccountRow]) -> Kernels:
    counters = sums.counters
    binaries_known = all(row.unknown_binaries == 0 for row in rows)
    contents_known = sums.unknown_contents == 0
    entries = [row.cache_entries for row in rows if row.cache_entries_known]
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
        cache_entries=sum(entries) if entries else None,
        cache_hits=counters.hits if sums.cache_seen else None,
        cache_misses=counters.misses if sums.cache_seen else None,
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


def _provenance(
    books: Books, record: DeviceRecord, rows: list[AccountRow]
) -> dict[str, Provenance]:
    sources = sorted({source for row in rows for source in books.processes[row.process].sources})
    source = " + ".join(sources) or "none"
    placed = all(not row.cb_unplaced and not row.cb_map_full for row in rows)
    reserved = all(not any(row.unreserved) for row in rows)
    buffers = Provenance(
        source,
        "sum of live buffers, "
        + ("reserved bytes" if reserved else "requested bytes where reserved are unknown"),
        "buffers that are older than the server, of clients that do not resend",
    )
    union = "cached: per-core union of address ranges over each process's live programs"
    demand = "demand: plain sum over all live programs"
    missing = "an L1 buffer may lie where a cached program has circular buffers: both count"
    if not placed:
        missing = "cores are unknown, so programs that share addresses are added up"
    return {
        "identity": record.identity,
        "capacity": record.capacity_provenance,
        **dict.fromkeys(("dram", "l1", "l1_small", "trace"), buffers),
        "cb": Provenance(source, union if placed else demand, missing),
        "kernels": Provenance(
            source, "footprint: binary x cores, if resident everywhere; in no L1 sum"
        ),
    }


def _over_capacity(
    books: Books,
    record: DeviceRecord,
    memory: Memory,
    sums: DeviceRow,
    rows: list[AccountRow],
) -> list[Anomaly]:
    out = []
    for kind, use in (
        (MemoryKind.DRAM, memory.dram),
        (MemoryKind.TRACE, memory.trace),
        (MemoryKind.L1_SMALL, memory.l1_small),
        (MemoryKind.L1, memory.l1),
    ):
        if use.capacity is not None and use.held > use.capacity:
            culprit = _culprit(books, rows, [row.held[kind] for row in rows])
            out.append(over_capacity(kind.name, use.held, use.capacity, culprit, 0))
    if record.l1_capacity is not None and sums.l1_used > record.l1_capacity:
        by_demand = sum(row.cb_demand for row in rows if row.cb_unplaced or row.cb_map_full)
        culprit = _culprit(books, rows, [held(row).l1_used for row in rows])
        what = "L1 with L1_SMALL and circular buffers"
        anomaly = over_capacity(what, sums.l1_used, record.l1_capacity, culprit, by_demand)
        if not by_demand and memory.cb.used and memory.l1.held:
            why = "; L1 buffers may lie where cached programs have circular buffers, and both count"
            anomaly = replace(anomaly, text=anomaly.text + why)
        out.append(anomaly)
    return out


def _culprit(books: Books, rows: list[AccountRow], shares: Sequence[int]) -> tuple[str, int, int]:
    most, row = max(zip(shares, rows, strict=True), key=lambda pair: pair[0])
    process = books.processes[row.process]
    return process.title, process.pid, most


def _findings(books: Books, rows: list[FindingRow]) -> list[Anomaly]:
    owners = [(row, books.processes[row.process]) for row in rows]
    return [finding_anomaly(row, process.title, process.pid) for row, process in owners]
