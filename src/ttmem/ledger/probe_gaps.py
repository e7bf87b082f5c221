"""What the figures of a watched process are known to miss."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ttmem.snapshots import Anomaly

if TYPE_CHECKING:
    from ttmem.events.probe_news import ProbeCounters, ProbeNews

UNTRACKED = "what was allocated while tracking was switched off"
ALL_CHIPS = (
    "which chips of a mesh a program runs on, which this runtime does not show to the probe: a program is counted on"
    " all of them"
)
LOWER_BOUND = "what the probe's table had no room for: it is at least this much"
UNSEEN_EVENTS = (
    "events that were overwritten before they were read: how often some programs ran, what lies on cores where"
    " nothing ran since, and the highest L1 used are N/A"
)


@dataclass(slots=True)
class ProbeGaps:
    """Of one process. For a table that is full there are sums of buffers beside it, but none of anything else."""

    tracking: bool = True
    unseen: int = 0  # buffers that were allocated while tracking was off
    missed: bool = False  # events were overwritten before they were read
    uncounted: set[int] = field(default_factory=set)  # programs that ran unseen
    table_full: bool = False  # the table was read, and had no room for all
    unlisted: int = 0  # live buffers that are told as one entry
    lower_bound: set[str] = field(default_factory=set)  # devices with programs that may not be told

    def take(self, news: ProbeNews) -> None:
        """One more look."""
        self.tracking, self.unseen = news.tracking, news.unseen
        self.table_full |= news.table_full

    def compare(self, device: str, counted: ProbeCounters) -> None:
        """Are there programs that the table may have had no room for? The probe does not count those."""
        if self.table_full and (counted.cb_peak or counted.loads):
            self.lower_bound.add(device)

    @property
    def untracked(self) -> bool:
        """Is there, or may there be now, something that nobody has seen?"""
        return self.unseen > 0 or not self.tracking

    def anomalies(self, who: str, pid: int, device: str) -> Iterator[Anomaly]:
        """What a reader of the sums of one device must know."""
        if not self.tracking:
            text = f"{who}: tracking is switched off: what it allocates now is in no sum"
            yield Anomaly("untracked", text, pid)
        if self.unseen:
            buffers = "buffer was" if self.unseen == 1 else "buffers were"
            text = (
                f"{who}: {self.unseen:,} {buffers} allocated while tracking was off; what is alive of that"
                " is in no sum"
            )
            yield Anomaly("untracked", text, pid)
        told = "; ".join(self._beyond(device))
        if told:
            text = f"{who}: its probe's table is full: {told} (`ttmem run --live` makes more room)"
            yield Anomaly("probe_table", text, pid)

    def _beyond(self, device: str) -> Iterator[str]:
        if self.unlisted:
            buffers = "live buffer is" if self.unlisted == 1 else "live buffers are"
            yield f"{self.unlisted:,} {buffers} in all sums, but in lists together as one"
        if device in self.lower_bound:
            yield "circular buffers and kernels may be missing: CB, L1 used and kernel code are at least what is shown"
