"""Account rows: what each process holds on each device, by its events, or else by counters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import sub
from typing import Any

from ttmem.events import Amounts, MemoryKind
from ttmem.ledger.context import CounterContext
from ttmem.wire.rows import AccountRow, CounterColumns, DeviceRow, blank_row, grouped_rows

RESIDENT_SINCE = 4  # the layout of counters whose circular buffers are those of the last dispatch
AccountKey = tuple[int, int]  # process index, device index


class CounterRow(AccountRow):
    """What counters say about one process on one device: requested bytes, and nothing else."""

    __slots__ = ()


_BLANK = blank_row(CounterRow)._replace(unreserved=(1,) * len(MemoryKind))
_PLACES = ("process", "device", "requested", "held", "cb_resident", "cb_cached", "cb_used")
# `_replace` takes four times as long, and a full host has 2,048 rows.
_PROCESS, _DEVICE, _REQUESTED, _HELD, _CB_RESIDENT, _CB_CACHED, _CB_USED = map(
    CounterRow._fields.index, _PLACES
)


def counter_row(counter: CounterContext) -> CounterRow:
    dram, l1, l1_small, trace, cb = counter.amounts
    values: list[object] = [*_BLANK]
    values[_PROCESS], values[_DEVICE] = counter.process, counter.device
    values[_REQUESTED] = values[_HELD] = (dram, l1, 0, l1_small, trace)  # by MemoryKind
    values[_CB_USED] = cb
    if not counter.counts_kernels:  # those layouts count only one of them
        resident = counter.version >= RESIDENT_SINCE
        values[_CB_RESIDENT if resident else _CB_CACHED] = cb
    return tuple.__new__(CounterRow, values)


class _LatestReading:
    """A reading is used for several queries, so its rows and the sums of devices are made once."""

    def __init__(self) -> None:
        self._made: tuple[Sequence[CounterContext], list[AccountRow]] = (), []
        self._sums: tuple[bytes, Iterable[AccountRow], list[DeviceRow]] = b"", [], []

    def rows(self, counters: Sequence[CounterContext]) -> list[AccountRow]:
        of, rows = self._made
        if of != counters:  # takes no time where they are the same objects, as in most queries
            rows = [counter_row(counter) for counter in counters]
            self._made = counters, rows
        return rows

    def sums(self, data: bytes, rows: Iterable[AccountRow]) -> list[DeviceRow]:
        of_data, of_rows, sums = self._sums
        if rows is not of_rows or data != of_data:
            sums = _device_sums(data, rows)
            self._sums = data, rows, sums
        return [*sums]


_latest = _LatestReading()


def held(row: AccountRow) -> Amounts:
    """What one process holds on one device, measured like the sums."""
    return Amounts.of_kinds(row.held, row.cb_used)


def event_rows(
    data: bytes,
    ids: Sequence[str],
    binaries: Mapping[int, Mapping[str, int | None]],
    parts: Mapping[int, int],
) -> list[AccountRow]:
    """Rows of the native ledger, one for each process and device.

    `ids` are the unique ids of the devices. `binaries`: what probes saw in DRAM, by process. `parts`: further accounts
    of a process, whose rows are added to those of the first.
    """
    rows = grouped_rows(AccountRow, data)
    if binaries:
        rows = [_with_binaries(row, ids[row.device], binaries.get(row.process)) for row in rows]
    if not parts:
        return rows
    found: dict[AccountKey, list[AccountRow]] = {}
    for row in rows:
        found.setdefault((parts.get(row.process, row.process), row.device), []).append(row)
    return [_sum(process, some) for (process, _), some in found.items()]


def _with_binaries(
    row: AccountRow, unique_id: str, seen: Mapping[str, int | None] | None
) -> AccountRow:
    """The probe sees the buffers that hold binaries; others must add up the sizes of the binaries."""
    if not seen:
        return row
    found = seen.get(unique_id)
    return row._replace(dram_binaries=found or 0, unknown_binaries=int(found is None))


_EITHER = ("cb_map_full", "cache_seen", "cache_entries_known")
_LATEST = ("ring_occupied", "ring_capacity", "ring_programs", "ring_time")  # there is one ring


def _sum(process: int, rows: list[AccountRow]) -> AccountRow:
    """What several accounts of a process hold on one device."""
    latest = max(rows, key=lambda row: row.ring_time)
    if len(rows) == 1:
        return latest if latest.process == process else latest._replace(process=process)
    columns: dict[str, Any] = {"process": process, "device": latest.device}
    for name, values in zip(AccountRow._fields, zip(*rows, strict=True), strict=True):
        if name in columns:
            continue
        if name in _LATEST:
            columns[name] = getattr(latest, name)
        elif name in _EITHER:
            columns[name] = max(values)
        elif isinstance(values[0], int):
            columns[name] = sum(values)
        else:
            sums = map(sum, zip(*values, strict=True))
            columns[name] = CounterColumns(*sums) if name == "counters" else tuple(sums)
    return AccountRow(**columns)


def with_counter_rows(
    rows: list[AccountRow], counters: Sequence[CounterContext]
) -> list[AccountRow]:
    """Adds what only the counters know. Without rows, the same list for the same counters, which nobody changes."""
    counted = _latest.rows(counters)
    if not rows:
        return counted
    told = {(row.process, row.device) for row in rows}
    return [*rows, *(row for row in counted if (row.process, row.device) not in told)]


def with_counters(row: DeviceRow, counted: Iterable[CounterRow]) -> DeviceRow:
    """The sums of one device, with what only the counters know."""
    rows = list(counted)
    held = [sum(column) for column in zip(row.held, *(more.held for more in rows), strict=True)]
    cb_used = row.cb_used + sum(more.cb_used for more in rows)
    l1 = Amounts.of_kinds(held, cb_used).l1_used
    return row._replace(held=tuple(held), cb_used=cb_used, l1_used=l1)


def device_sums(data: bytes, rows: Iterable[AccountRow]) -> list[DeviceRow]:
    """The sums of all devices: rows of the native ledger, and the counters among the account rows."""
    return _latest.sums(data, rows) if isinstance(rows, list) else _device_sums(data, rows)


def _device_sums(data: bytes, rows: Iterable[AccountRow]) -> list[DeviceRow]:
    out = grouped_rows(DeviceRow, data)
    counted: dict[int, list[CounterRow]] = {}
    for row in rows:
        if isinstance(row, CounterRow):
            counted.setdefault(row.device, []).append(row)
    for index, more in counted.items():
        out[index] = with_counters(out[index], more)
    return out


def differences(
    counters: Iterable[CounterContext], rows: Iterable[AccountRow]
) -> Iterator[tuple[CounterContext, Amounts]]:
    """Where both report: what the counters say, and by how much it exceeds what the events requested."""
    told = {(row.process, row.device): row for row in rows if not isinstance(row, CounterRow)}
    for counter in counters:
        row = told.get((counter.process, counter.device)) if counter.has_events else None
        if row is not None:
            asked = Amounts.of_kinds(row.requested, row.cb_used + row.cb_shared)
            yield counter, Amounts._make(map(sub, counter.amounts, asked))
