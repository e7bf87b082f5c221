"""Changes of totals, as the ledger tells them."""

from __future__ import annotations

from ttmem.events import Amounts
from ttmem.recording import Stretch, Totals
from ttmem.recording.stretch import Logged
from ttmem.wire.rows import TotalsRow, packed


def test_times_never_decrease_and_devices_without_a_description_are_left_out() -> None:
    rows = [
        TotalsRow(0, 0, 0, 1, 2, 3, 4, 5),
        TotalsRow(1, 70, 9, 6, 6, 6, 6, 6),
        TotalsRow(2, 60, 1, 1 << 62, 0, 0, 0, 0),
        TotalsRow(5, 80, 0, 0, 0, 0, 0, 7),
    ]
    changes = Logged(6, packed(rows), b"", b"")

    found = list(Stretch(100, 50, changes, {0: "a", 1: "b"}, {}, {}).totals())

    assert found == [
        Totals(100, 50, "a", Amounts(1, 2, 3, 4, 5)),
        Totals(102, 70, "b", Amounts(1 << 62)),
        Totals(105, 80, "a", Amounts(cb=7)),
    ]
