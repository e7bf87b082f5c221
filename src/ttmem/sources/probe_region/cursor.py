"""A place in the ring: what was written since the last look, and how much of it was lost."""

from __future__ import annotations

import time
from dataclasses import dataclass

from ttmem.probe import _records, layout
from ttmem.probe.layout import Section
from ttmem.sources.probe_region.region_file import RegionFile

PATIENCE_S = 1.0  # for an event whose writer has its number but has not finished
BATCH = 1 << 16  # slots of one read: 5.5 MiB


@dataclass(frozen=True, slots=True)
class Batch:
    """Events in order, 64 bytes each, and 8 bytes beside each of them (`layout.SIDE`)."""

    events: bytes
    sides: bytes
    lost: int  # numbers between the last batch and this one that nobody will ever see


class Cursor:
    """Reads one ring. Two cursors do not disturb each other, nor the writers."""

    def __init__(self, file: RegionFile, ticket: int) -> None:
        self._file = file
        self._slots = file.count(Section.RING)
        self.ticket = ticket
        self.lost = 0
        self._stuck_at = -1
        self._stuck_since = 0.0

    def drain(self, sets: bytes, process_ended: bool = False) -> Batch:
        """Everything new, up to the end of the ring as it was when the call began."""
        head = self._file.word(layout.TICKETS_AT)
        if head < self.ticket:  # no writer does that: somebody else wrote to the file
            self.ticket = head
            return Batch(b"", b"", 0)
        lost = self._skip_overwritten(head)
        events, sides = [], []
        while self.ticket < head:
            data = self._slots_from(self.ticket, min(head - self.ticket, BATCH))
            taken_events, taken_sides, taken = _records.take_slots(data, self.ticket, sets)
            # What was overwritten while it was copied has a wrong checksum, and the next look says so.
            events.append(taken_events)
            sides.append(taken_sides)
            self.ticket += taken
            if taken * layout.SLOT_SIZE == len(data):
                continue
            overtaken = self._skip_overwritten(self._file.word(layout.TICKETS_AT))
            if overtaken:
                lost += overtaken
            elif process_ended or self._out_of_patience():
                self.ticket += 1
                lost += 1
            else:
                break
        self.lost += lost
        return Batch(b"".join(events), b"".join(sides), lost)

    def _skip_overwritten(self, head: int) -> int:
        oldest = max(0, head - self._slots)
        skipped = max(0, oldest - self.ticket)
        self.ticket += skipped
        return skipped

    def _out_of_patience(self) -> bool:
        now = time.monotonic()
        if self._stuck_at != self.ticket:
            self._stuck_at, self._stuck_since = self.ticket, now
        return now - self._stuck_since > PATIENCE_S

    def _slots_from(self, ticket: int, count: int) -> bytes:
        first = ticket & (self._slots - 1)
        until_end = min(count, self._slots - first)
        data = self._file.records(Section.RING, first, until_end)
        if until_end < count:
            data += self._file.records(Section.RING, 0, count - until_end)
        return data
