"""The highest value that a look has met, for counters keep no peak of their own, or that a probe has."""

from __future__ import annotations

from ttmem.wire.rows import KINDS, DeviceRow


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
