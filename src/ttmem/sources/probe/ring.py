"""A position in the ring: what was written since the last read, and how much of it was lost."""

from __future__ import annotations

import time

from ttmem.events.record import EVENT_SIZE, Event, Op, places
from ttmem.fast_dataclasses import dataclass, replace
from ttmem.probe import _records, layout
from ttmem.probe.layout import Section
from ttmem.sources.probe.region_file import RegionFile

PATIENCE_S = 1.0  # for an event whose writer has its number but has not finished
PIECE = 1 << 12  # slots of one read: 352 KiB
MOST_SLOTS = 1 << 17  # per read: a whole ring by default
MOST_BYTES = 8 << 20  # of events per read; an event of a mesh becomes up to 64


@dataclass(frozen=True, slots=True)
class RingBatch:
    """Events in order, 64 bytes each, and 8 bytes beside each of them (`layout.SIDE`)."""

    events: bytes
    sides: bytes
    lost: int  # between the last batch and this one
    skipped: int = 0  # before them, because only the latest were asked for
    more: bool = False  # the next call continues


def closed_with_device(events: bytes) -> dict[tuple[int, int], Event]:
    """The FREE of every buffer, by id and device, that its program never freed: closing the device did."""
    frees = (Event.unpack(events, at * EVENT_SIZE) for at in places(events, Op.FREE))
    return {(event.id, event.device): event for event in frees if event.is_freed_with_device}


class Cursor:
    """Reads one ring, independently of other cursors and of the writers."""

    def __init__(self, file: RegionFile) -> None:
        self._file = file
        self._slots = file.count(Section.RING)
        self.ticket = 0
        self._stuck_at = -1
        self._stuck_since = 0.0
        self._stuck_head = 0

    def drain(
        self,
        sets: bytes,
        process_ended: bool = False,
        limit: int = MOST_BYTES,
        slots: int = MOST_SLOTS,
    ) -> RingBatch:
        """What is new up to the head of the ring at the time of the call, within the limits."""
        head = self._file.word(layout.TICKETS_AT)
        if head < self.ticket:  # not written by the probe
            self.ticket = head
            return RingBatch(b"", b"", 0)
        lost = self._skip_overwritten(head)
        last = min(head, self.ticket + slots)
        # Slots before this that are not whole will never be finished.
        until = head if process_ended else 0
        events, sides, size = [], [], 0
        while self.ticket < last and size < limit:
            if self.ticket < until:
                lost += self._skip_hole(last)
            count = min(last - self.ticket, PIECE)
            data = self._slots_from(self.ticket, count)
            # A slot that was overwritten while it was copied has a wrong checksum.
            more_events, more_sides, taken, passed = _records.take_slots(
                data, self.ticket, sets, limit - size, until
            )
            events.append(more_events)
            sides.append(more_sides)
            size += len(more_events)
            self.ticket += taken
            lost += passed
            if taken == count or size >= limit:
                continue
            overtaken = self._skip_overwritten(self._file.word(layout.TICKETS_AT))
            if overtaken:
                lost += overtaken
            elif self._out_of_patience(head):
                until = self._stuck_head
            else:
                last = head = self.ticket
        return RingBatch(b"".join(events), b"".join(sides), lost, more=self.ticket < head)

    def latest(
        self, sets: bytes, process_ended: bool = False, limit: int = MOST_BYTES
    ) -> RingBatch:
        """Only the last events, about `limit` bytes of them."""
        head = self._file.word(layout.TICKETS_AT)
        lost = self._skip_overwritten(head)
        slots = max(MOST_SLOTS, limit // EVENT_SIZE)
        oldest = start = max(self.ticket, head - slots)
        size, at = 0, head
        while at > oldest and size < limit:
            start = max(oldest, at - PIECE)
            data = self._slots_from(start, at - start)
            size += len(_records.take_slots(data, start, sets, limit - size, at)[0])
            at = start
        skipped, self.ticket = start - self.ticket, start
        batch = self.drain(sets, process_ended, 2 * limit, slots)
        return replace(batch, lost=batch.lost + lost, skipped=skipped)

    def _skip_overwritten(self, head: int) -> int:
        oldest = max(0, head - self._slots)
        skipped = max(0, oldest - self.ticket)
        self.ticket += skipped
        return skipped

    def _skip_hole(self, last: int) -> int:
        """Skips slots in a hole of the file, which were never written."""
        first = self.ticket & (self._slots - 1)
        most = min(last - self.ticket - 1, self._slots - first - 1)
        skipped = min(self._file.hole(Section.RING, first), most)
        self.ticket += skipped
        return skipped

    def _out_of_patience(self, head: int) -> bool:
        now = time.monotonic()
        if self._stuck_at != self.ticket:
            self._stuck_at, self._stuck_since, self._stuck_head = self.ticket, now, head
        return now - self._stuck_since > PATIENCE_S

    def _slots_from(self, ticket: int, count: int) -> bytes:
        first = ticket & (self._slots - 1)
        until_end = min(count, self._slots - first)
        data = self._file.records(Section.RING, first, until_end)
        if until_end < count:
            data += self._file.records(Section.RING, 0, count - until_end)
        return data
