"""The processes of a picture, each once, whatever told of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from ttmem.ledger.process_record import ProcessRecord
from ttmem.snapshots import CrossCheck, Held, Process
from ttmem.wire.rows import AccountRow

if TYPE_CHECKING:
    from ttmem.ledger.books import Books

MAX_LEFT_BEHIND = 64
_ORDER = {"probe": 0, "socket": 1}


def held(row: AccountRow) -> Held:
    """What one process holds on one device, in the measure of the sums."""
    dram, l1, _, l1_small, trace = row.held  # in the order of MemoryKind
    return Held(dram, l1, l1_small, trace, row.cb_used)


def holding(devices: Mapping[str, Held]) -> dict[str, Held]:
    """Only where it is anything."""
    return {
        unique_id: sums
        for unique_id, sums in devices.items()
        if sums.dram + sums.trace + sums.l1_used
    }


def process_list(
    books: Books, rows: Iterable[AccountRow], checks: Mapping[tuple[int, int], CrossCheck]
) -> Iterator[Process]:
    """Those that send events, then those that only counters name."""
    by_process: dict[int, dict[str, Held]] = {}
    for row in rows:
        by_process.setdefault(row.process, {})[books.devices[row.device].unique_id] = held(row)
    crossed: dict[int, dict[str, CrossCheck]] = {}
    for (process, device), check in checks.items():
        crossed.setdefault(process, {})[books.devices[device].unique_id] = check
    also = books.counters.sources(books.processes)
    kernels = books.counters.kernels(books.processes)
    counted = []
    for record in books.processes.values():
        if record.counted_as is None:
            counted.append(record)
        else:
            also.setdefault(record.counted_as.index, set()).update(record.sources)
    for record in (*counted, *books.counters.strangers(books.processes)):
        yield _process(
            record,
            by_process.get(record.index, {}),
            crossed.get(record.index, {}),
            also.get(record.index, set()),
            kernels.get(record.index, {}),
        )


def _process(
    record: ProcessRecord,
    devices: Mapping[str, Held],
    checks: Mapping[str, CrossCheck],
    also: set[str],
    kernels: Mapping[str, int],
) -> Process:
    return Process(
        pid=record.pid,
        start_time_ns=record.facts.start_time_ns,
        user=record.facts.user,
        command=record.facts.command,
        alive=True,
        sources=in_words(record.sources | also),
        connected=record.connections > 0,
        devices=devices,
        dropped_events=record.dropped,
        overflow=record.overflow,
        container_pid=record.container_pid,
        cross_check=checks,
        kernels_counted=kernels,
    )


def in_words(sources: Iterable[str]) -> tuple[str, ...]:
    """The better source first: 'probe', 'socket', 'shared memory v3'."""
    return tuple(sorted(sources, key=lambda source: (_ORDER.get(source, len(_ORDER)), source)))
