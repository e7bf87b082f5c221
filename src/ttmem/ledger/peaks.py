"""The history of each device: samples of the last hour, and the peaks of polled counters."""

from __future__ import annotations

from array import array
from collections.abc import MutableSequence, Sequence

from ttmem.events import Amounts
from ttmem.ledger.context import PeakContext
from ttmem.snapshots import MemoryHistory
from ttmem.wire.rows import KINDS, DeviceRow

SECONDS = 3600
L1 = KINDS  # L1 used, after the kinds of memory
Mark = tuple[int, int]  # bytes, time


class DeviceHistory:
    """A ring of samples; 200 KB when full."""

    def __init__(self) -> None:
        self._columns: dict[str, MutableSequence[int]] = {
            name: array("Q") for name in MemoryHistory._fields
        }
        self._columns["time_ns"] = []  # a clock may be before 1970
        self._next = 0

    def __bool__(self) -> bool:
        return len(self._columns["time_ns"]) > 0

    def add(self, now: int, row: DeviceRow) -> None:
        self.append((now, *Amounts.of_kinds(row.held, row.cb_used), row.l1_used))

    def append(self, values: Sequence[int]) -> None:
        """Adds a sample, as columns; the oldest goes when the hour is full."""
        full = len(self._columns["time_ns"]) == SECONDS
        for column, value in zip(self._columns.values(), values, strict=True):
            if full:
                column[self._next] = value
            else:
                column.append(value)
        if full:
            self._next = (self._next + 1) % SECONDS

    def last(self) -> list[int]:
        """The latest sample, as columns."""
        return [column[self._next - 1] for column in self._columns.values()]

    def columns(self) -> MemoryHistory:
        at = self._next
        return MemoryHistory(*((*c[at:], *c[:at]) for c in self._columns.values()))


class PolledPeaks:
    """Peaks of one device, found by polling.

    Events have peaks of their own, exact to the byte. If counters report other processes on the same device, the peak
    of both together is known only if a poll happened at that moment: nobody knows the counters in between.
    """

    def __init__(self) -> None:
        self._seen: list[Mark] = [(0, 0)] * (KINDS + 1)  # all together, polled
        self._told: list[Mark] = [(0, 0)] * (KINDS + 1)  # events, from a probe
        self._counted = [0] * (KINDS + 1)  # counters alone, polled

    def reset(self, row: DeviceRow) -> None:
        """Resets peaks to what is allocated now."""
        self._seen = [(amount, 0) for amount in _amounts(row)]
        self._told = [(0, 0)] * (KINDS + 1)
        self._counted = [0] * (KINDS + 1)

    def raise_to(self, row: DeviceRow, events: DeviceRow, now: int) -> None:
        """Takes another poll; `events` is without what only counters report."""
        for kind, (amount, of_events) in enumerate(
            zip(_amounts(row), _amounts(events), strict=True)
        ):
            self._counted[kind] = max(self._counted[kind], amount - of_events)
            if amount > self._seen[kind][0]:
                self._seen[kind] = (amount, now)

    def begin_mixing(self, nothing: DeviceRow, others: DeviceRow) -> None:
        """A process reports by events from now on; `others` are known from counters."""
        self._counted = [
            value - none for value, none in zip(_amounts(others), _amounts(nothing), strict=True)
        ]

    def raise_kind(self, kind: int, amount: int, time: int) -> None:
        """Takes a peak of events that a probe observed; `L1` is that of L1 used."""
        if amount > self._told[kind][0]:
            self._told[kind] = (amount, time)

    def context(self) -> PeakContext:
        seen, seen_ns = zip(*self._seen, strict=True)
        told, told_ns = zip(*self._told, strict=True)
        return PeakContext(seen, seen_ns, told, told_ns, tuple(self._counted))


def with_peaks(row: DeviceRow, polled: PeakContext) -> tuple[DeviceRow, frozenset[int]]:
    """The row with the higher of its own peaks and the polled ones; and the kinds whose peak is unknown (see above)."""
    own = [*zip(row.peak, row.peak_time, strict=True), (row.l1_peak, row.l1_peak_time)]
    told = zip(polled.told, polled.told_ns, strict=True)
    seen = zip(polled.seen, polled.seen_ns, strict=True)
    own = [max(marks) for marks in zip(own, told, strict=True)]
    *kinds, l1 = (max(marks) for marks in zip(own, seen, strict=True))
    unknown = frozenset(
        kind
        for kind, (mark, best) in enumerate(zip(own, (*kinds, l1), strict=True))
        if mark[0] and polled.counted[kind] and best[0] < mark[0] + polled.counted[kind]
    )
    merged = row._replace(
        peak=tuple(peak for peak, _ in kinds),
        peak_time=tuple(time for _, time in kinds),
        l1_peak=l1[0],
        l1_peak_time=l1[1],
    )
    return merged, unknown


def _amounts(row: DeviceRow) -> tuple[int, ...]:
    return (*row.held, row.l1_used)
