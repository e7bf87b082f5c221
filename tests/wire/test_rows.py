"""The columns of native rows are those that Python names."""

from __future__ import annotations

import pytest

from ttmem._native import Ledger
from ttmem.events import BinaryStatus, Event, Flag, KernelType, MemoryKind, Op
from ttmem.snapshots.native_rows import COLUMNS
from ttmem.wire.rows import (
    AccountRow,
    BufferRow,
    CircularBufferRow,
    DeviceRow,
    FindingRow,
    KernelRow,
    ProgramRow,
    blank_row,
    flat_rows,
    grouped_rows,
)

CORES, MASK = 9, bytes([0b1111]) + bytes(127)


@pytest.fixture
def ledger() -> Ledger:
    """One process with one of everything on the second device; no two values are the same."""
    made = Ledger()
    made.open_process()
    process = made.open_process()
    made.add_device()
    device = made.add_device()
    made.bind(process, 7, device)
    made.define_cores(process, CORES, MASK)
    kernel = KernelType.DISPATCH
    for event in (
        Event(Op.ALLOC, MemoryKind.L1, 0, 7, 101, 102, 103, 104, 105, 6, 107, 108, 109),
        Event(Op.CB_ALLOC, 0, Flag.DATAFLOW, 7, 201, 202, 800, 204, 205, 3, CORES),
        Event(Op.KERNEL_LOAD, kernel, 0, 7, 301, 302, 303, 204, 305, 5, 0, 308, 309),
        Event(Op.PROGRAM_NAME, 0, 0, 7, 401, 204, name=408, site=409),
        Event(Op.PROGRAM_DISPATCH, 0, Flag.CACHE_HIT, 7, 501, 204, site=509),
        Event(Op.PROGRAM_DISPATCH, 0, Flag.CACHE_MISS, 7, 502, 204, site=509),
        Event(Op.PROGRAM_DISPATCH, 0, Flag.CACHE_HIT, 7, 503, 204, site=510),
        Event(Op.BINARY_STATUS, BinaryStatus.COMMITTED, 0, 7, 601, 204),
        Event(Op.FREE, 0, 0, 7, 701, 702),
    ):
        made.apply(process, event.pack(), 0, len(event.pack()), 1000)
    return made


def test_a_buffer(ledger: Ledger) -> None:
    (row,) = flat_rows(BufferRow, ledger.buffers())

    assert row == BufferRow(1, 1, MemoryKind.L1, 102, 103, 104, 105, 101, 6, 108, 109, 107)


def test_a_circular_buffer(ledger: Ledger) -> None:
    (row,) = flat_rows(CircularBufferRow, ledger.circular_buffers())

    assert row._asdict() == {
        "process": 1, "device": 1, "flags": Flag.DATAFLOW, "address": 205, "size": 800,
        "per_core": 200, "program": 204, "time": 201, "references": 3, "cores": CORES,
    }  # fmt: skip


def test_a_kernel(ledger: Ledger) -> None:
    (row,) = flat_rows(KernelRow, ledger.kernels())

    assert row._asdict() == {
        "process": 1, "device": 1, "type": KernelType.DISPATCH, "id": 302, "binary": 303,
        "binary_known": 1, "cores": 5, "footprint": 1515, "content": 305, "program": 204,
        "dispatches": 3, "time": 301, "name": 308, "site": 309, "loads": 1,
    }  # fmt: skip


def test_a_program(ledger: Ledger) -> None:
    (row,) = flat_rows(ProgramRow, ledger.programs())

    assert row._asdict() == {
        "process": 1, "device": 1, "id": 204, "status": BinaryStatus.COMMITTED, "status_known": 1,
        "dispatches": 3, "hits": 2, "misses": 1, "last_dispatch": 503, "resident": 800,
        "resident_cores": 4, "name": 408, "site": 409, "last_site": 510,
    }  # fmt: skip


def test_a_finding(ledger: Ledger) -> None:
    (row,) = flat_rows(FindingRow, ledger.findings())

    assert (row.process, row.device, row.times, row.last_id) == (1, 1, 1, 702)


def test_accounts_and_devices(ledger: Ledger) -> None:
    (account,) = grouped_rows(AccountRow, ledger.accounts(1))
    assert (account.process, account.device) == (1, 1)
    assert (account.requested[MemoryKind.L1], account.held[MemoryKind.L1]) == (103, 104)
    assert (account.cb_count, account.kernels, account.programs) == (3, (0, 0, 1), 1)
    assert (account.counters.dispatches, account.counters.hits) == (3, 2)
    assert account.live == 1 + 3 + 1 + 1

    first, second = grouped_rows(DeviceRow, ledger.devices())
    assert first == blank_row(DeviceRow)
    assert (second.held[MemoryKind.L1], second.l1_used) == (104, 104 + second.cb_used)
    assert (second.distinct, second.distinct_bytes, second.counters.misses) == (1, 303, 1)


@pytest.mark.parametrize("listing", COLUMNS)
def test_every_listing_has_one_row_of_that_many_columns(ledger: Ledger, listing: str) -> None:
    rows: bytes = getattr(ledger, listing)()

    assert len(rows) == 8 * len(COLUMNS[listing]._fields)
