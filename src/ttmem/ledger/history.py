"""One hour of one-second samples per device, so that a monitor started late shows the past."""

from __future__ import annotations

from array import array
from collections.abc import MutableSequence
from typing import Any

from ttmem.events import MemoryKind
from ttmem.wire.rows import DeviceRow

SECONDS = 3600
COLUMNS = ("time_ns", "dram", "l1", "l1_small", "trace", "cb", "l1_used")


class DeviceHistory:
    """A ring of samples; 200 KB when full."""

    def __init__(self) -> None:
        self._columns: dict[str, MutableSequence[int]] = {name: array("Q") for name in COLUMNS}
        self._columns["time_ns"] = []  # a clock may stand before 1970
        self._next = 0

    def __bool__(self) -> bool:
        return len(self._columns["time_ns"]) > 0

    def add(self, now: int, row: DeviceRow) -> None:
        """Appends one sample; the oldest goes when the hour is full."""
        held = row.held
        values = (
            now,
            held[MemoryKind.DRAM],
            held[MemoryKind.L1],
            held[MemoryKind.L1_SMALL],
            held[MemoryKind.TRACE],
            row.cb_used,
            row.l1_used,
        )
        full = len(self._columns["time_ns"]) == SECONDS
        for column, value in zip(self._columns.values(), values, strict=True):
            if full:
                column[self._next] = value
            else:
                column.append(value)
        if full:
            self._next = (self._next + 1) % SECONDS

    def to_json(self) -> dict[str, Any]:
        """Columns, oldest first."""
        at = self._next
        return {name: [*column[at:], *column[:at]] for name, column in self._columns.items()}
