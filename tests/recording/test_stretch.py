"""Changes of totals, as the ledger tells them."""

from __future__ import annotations

from ttmem.events import Amounts
from ttmem.recording import Stretch, Totals
from ttmem.recording.stretch import Logged, UniqueIds
from ttmem.wire.rows import TotalsRow, packed


def test_times_never_decrease_and_devices_without_a_description_are_left_out() -> None:
    rows = [
        TotalsRow(0, 0, 0, 1, 2, 3, 4, 5),
        TotalsRow(1, 70, 9, 6, 6, 6, 6, 6),
        TotalsRow(2, 60, 1, 1 << 62, 0, 0, 0, 0),
        TotalsRow(5, 80, 0, 0, 0, 0, 0, 7),
    ]
    changes = Logged(6, packed(rows), b"", b"")
    names = UniqueIds([(0, 0, "a"), (0, 1, "b")])

    found = list(Stretch(100, 50, changes, names, {}, {}).totals())

    assert found == [
        Totals(100, 50, "a", Amounts(1, 2, 3, 4, 5)),
        Totals(102, 70, "b", Amounts(1 << 62)),
        Totals(105, 80, "a", Amounts(cb=7)),
    ]


def test_totals_belong_to_the_device_that_had_the_entry_of_the_ledger_then() -> None:
    rows = [TotalsRow(at, 60, index, at, 0, 0, 0, 0) for at, index in enumerate((0, 1, 0, 7, 0))]
    names = UniqueIds([(0, 0, "a"), (0, 1, "b"), (103, 0, "c"), (104, 0, "c")])

    found = list(Stretch(100, 50, Logged(5, packed(rows), b"", b""), names, {}, {}).totals())

    assert [(one.position, one.device, one.amounts.dram) for one in found] == [
        (100, "a", 0),
        (101, "b", 1),
        (102, "a", 2),
        (104, "c", 4),
    ]
