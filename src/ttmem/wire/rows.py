"""Rows of the native ledger: unsigned 64-bit columns, little-endian. `make tables` writes the same columns for C++.

Accounts and devices stay inside the server; buffers, circular buffers, kernels and programs also travel as attachments
of an answer, so that a million of them costs the server one copy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import IntEnum
from functools import cache
from operator import itemgetter
from struct import Struct
from typing import Any, TypeVar

from ttmem.events import KernelType, MemoryKind
from ttmem.fast_dataclasses import NamedTuple

KINDS = len(MemoryKind)
KERNEL_TYPES = len(KernelType)


class CounterColumns(NamedTuple):
    """Counters of one account or device."""

    loads: int
    unloads: int
    dispatches: int
    hits: int
    misses: int


class AccountRow(NamedTuple):
    """What one process holds on one device; tuples are indexed by MemoryKind or KernelType."""

    process: int
    device: int
    requested: tuple[int, ...]
    held: tuple[int, ...]
    counts: tuple[int, ...]
    unreserved: tuple[int, ...]
    cb_demand: int
    cb_count: int
    cb_unplaced: int
    cb_cached: int
    cb_map_full: int
    cb_resident: int
    cb_dataflow: int
    cb_used: int
    cb_shared: int
    cb_shared_unknown: int
    footprint: tuple[int, ...]
    kernels: tuple[int, ...]
    dram_binaries: int
    unknown_binaries: int
    programs: int
    counters: CounterColumns
    cache_seen: int
    cache_entries: int
    cache_entries_known: int
    ring_occupied: int
    ring_capacity: int
    ring_wraps: int
    ring_syncs: int
    ring_programs: int
    ring_time: int
    live: int


class DeviceRow(NamedTuple):
    held: tuple[int, ...]
    peak: tuple[int, ...]
    peak_time: tuple[int, ...]
    cb_used: int
    l1_used: int
    l1_peak: int
    l1_peak_time: int
    distinct: int
    distinct_bytes: int
    unknown_contents: int
    counters: CounterColumns
    cache_seen: int


class BufferRow(NamedTuple):
    """One live buffer; `process` and `device` are indices."""

    process: int
    device: int
    kind: int
    id: int
    size: int
    reserved: int
    address: int
    time: int
    references: int
    name: int
    site: int
    phase: int


class CircularBufferRow(NamedTuple):
    process: int
    device: int
    flags: int
    address: int
    size: int
    per_core: int
    program: int
    time: int
    references: int
    cores: int


class KernelRow(NamedTuple):
    process: int
    device: int
    type: int
    id: int
    binary: int
    binary_known: int
    cores: int
    footprint: int
    content: int
    program: int
    dispatches: int
    time: int
    name: int
    site: int
    loads: int


class ProgramRow(NamedTuple):
    process: int
    device: int
    id: int
    status: int
    status_known: int
    dispatches: int
    hits: int
    misses: int
    last_dispatch: int
    resident: int
    resident_cores: int
    name: int
    site: int
    last_site: int


class FindingCode(IntEnum):
    """What can be wrong with the events of a process; `ttmem.ledger.anomalies` has the sentences."""

    UNKNOWN_FREE = 1
    BUFFER_RESIZED = 2
    UNKNOWN_CB_FREE = 3
    UNKNOWN_UNLOAD = 4
    KERNEL_RESIZED = 5
    TABLE_FULL = 6
    STATUS_BACKWARDS = 7
    CB_MAP_FULL = 8
    REJECTED = 9
    DOUBLE_FREE = 10
    DOUBLE_CB_FREE = 11
    DOUBLE_UNLOAD = 12


class Reject(IntEnum):
    """Why an event is not accounted."""

    OP = 1
    KIND = 2
    SIZE_ZERO = 3
    SIZE_HUGE = 4
    CORES = 5


class FindingRow(NamedTuple):
    """Anomalies of one kind that one process caused on one device."""

    anomaly: int
    process: int
    device: int
    times: int
    bytes: int
    last_id: int


class TotalsRow(NamedTuple):
    """The bytes held on one device after a record of a journal that changed them."""

    record: int  # counted from the first record of the call
    time: int
    device: int
    dram: int
    l1: int
    l1_small: int
    trace: int
    cb: int


class BufferChangeRow(NamedTuple):
    """A buffer that started or stopped being counted with a record of a journal."""

    record: int  # counted from the first record of the call
    time: int
    begins: int  # otherwise it ends
    process: int
    device: int
    kind: int
    id: int
    size: int
    reserved: int
    address: int
    since: int  # when it was allocated
    name: int
    site: int
    phase: int


_GROUPS: dict[str, int] = {
    **dict.fromkeys(("requested", "held", "counts", "unreserved", "peak", "peak_time"), KINDS),
    **dict.fromkeys(("footprint", "kernels"), KERNEL_TYPES),
    "counters": len(CounterColumns._fields),
}

Row = TypeVar("Row", bound=tuple[object, ...])


def widths(row: type[tuple[object, ...]]) -> list[tuple[str, int]]:
    """How many columns each name has; 0: one, and not a group."""
    names: tuple[str, ...] = row._fields  # type: ignore[attr-defined]
    groups = _GROUPS if issubclass(row, (AccountRow, DeviceRow)) else {}
    return [(name, groups.get(name, 0)) for name in names]


def blank_row(row: type[Row]) -> Row:
    return grouped_rows(row, bytes(8 * sum(width or 1 for _, width in widths(row))))[0]


def flat_rows(row: type[Row], data: bytes | memoryview) -> Iterator[Row]:
    """Rows without groups, at the speed of `iter_unpack`."""
    make = row._make  # type: ignore[attr-defined]
    return map(make, Struct(f"<{len(widths(row))}Q").iter_unpack(data))


def packed(rows: Iterable[tuple[int, ...]]) -> bytes:
    """The inverse of `flat_rows`."""
    return b"".join(Struct(f"<{len(row)}Q").pack(*row) for row in rows)


def grouped_rows(row: type[Row], data: bytes) -> list[Row]:
    """Rows with groups: the listed names take several columns."""
    unpack, take, counters = _groups(row)
    make = row._make  # type: ignore[attr-defined]
    if counters is None:
        return [make(take(flat)) for flat in unpack(data)]
    out: list[Row] = []
    for flat in unpack(data):
        values = [*take(flat)]
        values[counters] = CounterColumns._make(values[counters])
        out.append(make(values))
    return out


@cache
def _groups(row: type) -> tuple[Callable[[bytes], Iterator[Any]], Callable[[Any], Any], int | None]:
    """How to unpack rows, how to take the columns and groups of one, and where its counters are."""
    places: list[int | slice] = []
    at = 0
    for _, width in widths(row):
        places.append(slice(at, at + width) if width else at)
        at += width or 1
    names = [name for name, _ in widths(row)]
    counters = names.index("counters") if "counters" in names else None
    return Struct(f"<{at}Q").iter_unpack, itemgetter(*places), counters
