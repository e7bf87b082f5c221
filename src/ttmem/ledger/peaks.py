"""The past of each device: an hour of history, and the peaks of polled counters."""

from __future__ import annotations

from array import array
from collections.abc import MutableSequence
from typing import TYPE_CHECKING, Any

from ttmem.events import MemoryKind
from ttmem.wire.rows import KINDS, DeviceRow

if TYPE_CHECKING:
    pass


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


class PolledPeaks:
    """Peaks of one device, from one look to the next."""

    def __init__(self) -> None:
        self._peak = [0] * KINDS
        self._time = [0] * KINDS
        self._l1 = (0, 0)  # bytes, time

    def reset(self, row: DeviceRow) -> None:
        """Peaks start again at what is held now."""
        self._peak, self._time, self._l1 = [*row.held], [0] * KINDS, (row.l1_used, 0)

    def raise_to(self, row: DeviceRow, now: int) -> None:
        """One more look."""
        for kind, held in enumerate(row.held):
            if held > self._peak[kind]:
                self._peak[kind], self._time[kind] = held, now
        if row.l1_used > self._l1[0]:
            self._l1 = (row.l1_used, now)

    def raise_kind(self, kind: int, amount: int, time: int) -> None:
        """A peak that somebody else has met."""
        if amount > self._peak[kind]:
            self._peak[kind], self._time[kind] = amount, time

    def raise_l1(self, amount: int, time: int) -> None:
        """The same of L1 used."""
        if amount > self._l1[0]:
            self._l1 = (amount, time)

    def merged(self, row: DeviceRow) -> DeviceRow:
        """The row with the higher of both peaks: its own, to the event, and that of the looks."""
        peaks = [
            max(own, polled)
            for own, polled in zip(
                zip(row.peak, row.peak_time, strict=True),
                zip(self._peak, self._time, strict=True),
                strict=True,
            )
        ]
        l1_peak, l1_time = max((row.l1_peak, row.l1_peak_time), self._l1)
        return row._replace(
            peak=tuple(peak for peak, _ in peaks),
            peak_time=tuple(time for _, time in peaks),
            l1_peak=l1_peak,
            l1_peak_time=l1_time,
        )
