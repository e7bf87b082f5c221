"""The processes of a picture, each once, whatever told of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ttmem.events import Amounts
from ttmem.ledger.process_record import ProcessRecord
from ttmem.snapshots import CrossCheck, Process
from ttmem.wire.rows import AccountRow, CounterColumns

if TYPE_CHECKING:
    from ttmem.ledger.books import Books

MAX_LEFT_BEHIND = 64
_ORDER = {"probe": 0, "socket": 1}


def held(row: AccountRow) -> Amounts:
    """What one process holds on one device, in the measure of the sums."""
    return Amounts.of_kinds(row.held, row.cb_used)


def holding(devices: Mapping[str, Amounts]) -> dict[str, Amounts]:
    """Only where it is anything."""
    return {unique_id: sums for unique_id, sums in devices.items() if sums.all}


_KEPT = ("process", "device")
_EITHER = ("cb_map_full", "cache_seen", "cache_entries_known")
_LATEST = ("ring_occupied", "ring_capacity", "ring_programs", "ring_time")  # the ring is one


def added_up(rows: list[AccountRow], processes: Mapping[int, ProcessRecord]) -> list[AccountRow]:
    """One row for each process and device: what several reporters of a process say adds up."""
    if not any(process.parts for process in processes.values()):
        return rows
    out: dict[tuple[int, int], AccountRow] = {}
    for row in rows:
        whole = processes[row.process].part_of or processes[row.process]
        at = (whole.index, row.device)
        row = row._replace(process=whole.index)
        out[at] = _sum(out[at], row) if at in out else row
    return list(out.values())


def _sum(one: AccountRow, other: AccountRow) -> AccountRow:
    later = max(one, other, key=lambda row: row.ring_time)
    columns: dict[str, Any] = {}
    for name, mine, its in zip(AccountRow._fields, one, other, strict=True):
        if name in _KEPT:
            columns[name] = mine
        elif name in _LATEST:
            columns[name] = getattr(later, name)
        elif isinstance(mine, int) and isinstance(its, int):
            columns[name] = max(mine, its) if name in _EITHER else mine + its
        elif isinstance(mine, tuple) and isinstance(its, tuple):
            pairs = [a + b for a, b in zip(mine, its, strict=True)]
            columns[name] = CounterColumns(*pairs) if name == "counters" else tuple(pairs)
    return AccountRow(**columns)


def process_list(
    books: Books, rows: Iterable[AccountRow], checks: Mapping[tuple[int, int], CrossCheck]
) -> Iterator[Process]:
    """Those that send events, then those that only counters name."""
    by_process: dict[int, dict[str, Amounts]] = {}
    for row in rows:
        by_process.setdefault(row.process, {})[books.devices[row.device].unique_id] = held(row)
    crossed: dict[int, dict[str, CrossCheck]] = {}
    for (process, device), check in checks.items():
        crossed.setdefault(process, {})[books.devices[device].unique_id] = check
    also = books.counters.sources(books.processes)
    kernels = books.counters.kernels(books.processes)
    counted = []
    for record in books.processes.values():
        if record.counted_as is None and record.part_of is None:
            counted.append(record)
        elif record.counted_as is not None:
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
    devices: Mapping[str, Amounts],
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
        connected=any(account.connections for account in record.accounts),
        devices=devices,
        dropped_events=sum(account.dropped for account in record.accounts),
        overflow=sum(account.overflow for account in record.accounts),
        container_pid=record.container_pid,
        cross_check=checks,
        kernels_counted=kernels,
    )


def in_words(sources: Iterable[str]) -> tuple[str, ...]:
    """The better source first: 'probe', 'socket', 'shared memory v3'."""
    return tuple(sorted(sources, key=lambda source: (_ORDER.get(source, len(_ORDER)), source)))
