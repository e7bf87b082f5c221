"""Peaks that a probe has counted itself: also of what happened before anybody read its region."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ttmem.events import MemoryKind
from ttmem.ledger.device_record import DeviceRecord
from ttmem.ledger.process_record import ProcessRecord

if TYPE_CHECKING:
    from ttmem.events.probe_news import ProbeCounters, ProbeNews


class ProbePeaks:
    """A peak counts when it is new: one from before `reset_peak` does not come back."""

    def __init__(self) -> None:
        self._seen: dict[tuple[int, int, MemoryKind], int] = {}

    def take(
        self,
        process: ProcessRecord,
        news: ProbeNews,
        indices: Mapping[int, int],
        devices: Sequence[DeviceRecord],
        now: int,
    ) -> None:
        """One more look at all devices of a process."""
        for chip, counted in news.counters.items():
            if chip not in indices:
                continue
            device = devices[indices[chip]]
            for kind in MemoryKind:
                key, one = (process.index, device.index, kind), counted.kinds[kind]
                if one.peak > self._seen.get(key, 0):
                    self._seen[key] = one.peak
                    device.polled.raise_kind(kind, one.peak, _known(one.peak_ns, now))
            if news.missed:
                _take_l1(device, counted, now)

    def forget(self, process: ProcessRecord) -> None:
        """It is released."""
        for key in [key for key in self._seen if key[0] == process.index]:
            del self._seen[key]


def _known(time_ns: int, now: int) -> int:
    """0 for a time that is still to come: the clock was set, or stood before 1970."""
    return time_ns if time_ns <= now else 0


def _take_l1(device: DeviceRecord, counted: ProbeCounters, now: int) -> None:
    """Of L1 used there is no counter: its peak is known where all but one part was never used."""
    l1, small = counted.kinds[MemoryKind.L1], counted.kinds[MemoryKind.L1_SMALL]
    if counted.cb_peak or (l1.peak and small.peak):
        device.l1_peak_missed = True
    else:
        peak, peak_ns = max((l1.peak, l1.peak_ns), (small.peak, small.peak_ns))
        device.polled.raise_l1(peak, _known(peak_ns, now))
