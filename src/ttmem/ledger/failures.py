"""Allocations that failed, as anomalies of their device: who asked, for how much, how often.

The application that asked often dies of it: for a while the failure outlives the process.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ttmem.events import EVENT_SIZE, Event, MemoryKind, Notice
from ttmem.events.runtime_messages import bank_figures, end_in_each_core
from ttmem.ledger.process_record import ProcessRecord
from ttmem.sizes import human
from ttmem.snapshots import Anomaly

if TYPE_CHECKING:
    from ttmem.events.probe_news import ProbeNews

KEPT_NS = 600 * 1_000_000_000
MOST = 64  # processes and devices
MOST_OF_A_LOOK = 4096


@dataclass(slots=True)
class _Failed:
    """The failures of one process on one device; of the last one what was asked for."""

    process: ProcessRecord
    device: str
    seen_ns: int
    last: Event
    times: int = 1


class FailedAllocations:
    """What the watched processes could not get in the last ten minutes."""

    def __init__(self) -> None:
        self._failed: OrderedDict[tuple[int, str], _Failed] = OrderedDict()
        self._awaited: set[int] = set()

    def look(self, process: ProcessRecord, news: ProbeNews, now: int) -> None:
        """Failures are rare: events are searched only if a message came with them, or just before."""
        if news.messages or process.index in self._awaited:
            self._take(process, news.earlier + news.events, now)
        # The probe writes the message first, so that its event may come with the next look.
        self._awaited.discard(process.index)
        if news.messages and not news.ended:
            self._awaited.add(process.index)

    def _take(self, process: ProcessRecord, events: bytes, now: int) -> None:
        for event in _failures_in(events):
            device = process.devices.get(event.device)
            if device is None:
                continue
            known = self._failed.pop((process.index, device), None)
            times = known.times + 1 if known else 1
            self._failed[process.index, device] = _Failed(process, device, now, event, times)
            while len(self._failed) > MOST:
                self._failed.popitem(last=False)

    def forget_old(self, now: int) -> None:
        """Of what happened long ago nobody needs to hear."""
        while self._failed and now - next(iter(self._failed.values())).seen_ns > KEPT_NS:
            self._failed.popitem(last=False)

    def of(self, device: str, l1_base: int | None = None) -> Iterator[Anomaly]:
        """Those on one device, by its unique id; what can be allocated in its cores begins at `l1_base`."""
        for one in self._failed.values():
            if one.device == device:
                yield _anomaly(one, l1_base)


def _failures_in(events: bytes) -> list[Event]:
    """In their order; a runtime that fails takes 100 us, so that more than the last of them come from no runtime."""
    ops, found = events[::EVENT_SIZE], list[Event]()
    at = ops.rfind(Notice.ALLOCATION_FAILED)
    while at >= 0 and len(found) < MOST_OF_A_LOOK:
        found.append(Event.unpack(events, at * EVENT_SIZE))
        at = ops.rfind(Notice.ALLOCATION_FAILED, 0, at)
    return found[::-1]


def _anomaly(failed: _Failed, l1_base: int | None) -> Anomaly:
    """What was asked for stands first: lines of the views are cut at their end."""
    event, strings = failed.last, failed.process.strings
    times = "an allocation" if failed.times == 1 else f"{failed.times:,} allocations"
    last = "" if failed.times == 1 else "the last one "
    message = failed.process.messages.get(event.time, "")
    said = bank_figures(message)
    size = said.asked if said else event.size
    asked = _asked(event.kind, size, message, l1_base)
    origin = ", ".join(filter(None, (strings.get(event.name), strings.get(event.site))))
    where = f" for {origin}" if origin else ""
    text = f"{times} FAILED: {last}{asked}{where}; {failed.process.title}"
    time_ns = event.time if 0 < event.time < 1 << 63 else None  # beyond it: a clock before 1970
    return Anomaly("allocation_failed", text, failed.process.pid, size or None, time_ns)


def _asked(kind_number: int, size: int, message: str, l1_base: int | None) -> str:
    """A program asks for no sum, but for the same addresses in each core; only the runtime's message has them."""
    known = kind_number in set(MemoryKind)
    kind = MemoryKind(kind_number).name if known else "unknown memory"
    if size:
        return f"{human(size)} of {kind}"
    end = end_in_each_core(message)
    if end is None or l1_base is None or end <= l1_base:
        return f"in {kind}"
    return f"{human(end - l1_base)} of {kind} on each core"
