"""An account that is moved to another device is as if it had been there from the start."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ledger.oracle import NOW, facts, report
from tests.ledger.test_laws import CORE_SETS, any_event
from ttmem.events import DeviceDeclaration, Event
from ttmem.ledger import Books, ProcessRecord
from ttmem.wire.rows import (
    BufferRow,
    CircularBufferRow,
    FindingRow,
    KernelRow,
    ProgramRow,
    flat_rows,
)

HERE, ELSEWHERE = "9000", "9001"  # native devices 0 and 1


def reporting(device: str) -> tuple[Books, ProcessRecord]:
    """A process whose device 0 and 1 is the given one."""
    books = Books()
    process = books.open_process(facts(41))
    for number, unique_id in enumerate((HERE, ELSEWHERE)):
        books.declare(process, DeviceDeclaration(number, unique_id))
    where = 0 if device == HERE else 1
    for number in (0, 1):
        books.native.bind(process.index, number, where)
    for number, cores in CORE_SETS.items():
        books.define_cores(process, number, sum(1 << (y * 32 + x) for x, y in cores))
    return books, process


def everything(books: Books) -> list[object]:
    """All that the ledger can be asked, but for peaks: those of the old device are its own."""
    native = books.native
    sums = books.device_rows(books.account_rows())[1]
    return [
        books.account_rows(),
        sums._replace(peak=(), peak_time=(), l1_peak=0, l1_peak_time=0),
        sorted(flat_rows(BufferRow, native.buffers())),
        sorted(flat_rows(CircularBufferRow, native.circular_buffers())),
        sorted(flat_rows(KernelRow, native.kernels())),
        sorted(flat_rows(ProgramRow, native.programs())),
        sorted(flat_rows(FindingRow, native.findings())),
        sorted(native.core_map(1)),
        sorted(native.resident_map(1)),
        native.live(),
    ]


@settings(deadline=None)
@given(
    before=st.lists(any_event, max_size=30),
    after=st.lists(any_event, max_size=10),
)
def test_a_moved_account_is_as_if_it_had_always_been_there(
    before: Sequence[Event], after: Sequence[Event]
) -> None:
    moved, process = reporting(HERE)
    report(moved, process, *before)
    assert moved.native.move_account(process.index, 0, 1, NOW)
    for number in (0, 1):
        moved.native.bind(process.index, number, 1)
    report(moved, process, *after)
    expected, other = reporting(ELSEWHERE)
    report(expected, other, *before, *after)

    assert everything(moved) == everything(expected)

    moved.release(process, NOW)
    for row in moved.device_rows([]):
        assert (sum(row.held), row.cb_used, row.l1_used, row.distinct) == (0, 0, 0, 0)
    assert moved.native.live() == 0


def test_a_process_that_reports_both_devices_has_two() -> None:
    books = Books()
    process = books.open_process(facts(41))
    for number, unique_id in enumerate((HERE, ELSEWHERE)):
        books.declare(process, DeviceDeclaration(number, unique_id))
        report(books, process, Event(op=1, kind=0, device=number, id=1, size=64))

    assert not books.native.move_account(process.index, 0, 1, NOW)
    assert [d.memory.dram.held for d in books.snapshot(NOW).devices] == [64, 64]
