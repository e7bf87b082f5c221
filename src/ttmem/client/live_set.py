"""What is alive in this process, so that a server that comes late, or again, can be told.

Every entry is kept as the 64 bytes of the event that made it, ready to be sent again. The rules
are the ledger's: an equal ALLOC is one more reference, a different one replaces; a KERNEL_LOAD of a
live id is a dispatch; the last part of a program takes the program with it.
"""

from __future__ import annotations

from ttmem.client.live_programs import Handler, LivePrograms
from ttmem.client.records import HEAD_AND_ID, HIGH, SIZE, Room, head, with_count
from ttmem.events import EVENT_SIZE, Flag, MemoryKind, Op

MOST_DEVICES = 4096


class BufferLane:
    """The live buffers of one kind on one device."""

    __slots__ = ("records", "shared")

    def __init__(self) -> None:
        self.records: dict[int, bytes] = {}
        self.shared: dict[int, int] = {}  # references, of those that have more than one

    def allocate_again(self, buffer_id: int, record: bytes) -> None:
        """An ALLOC of an id that is alive."""
        known = self.records[buffer_id]
        if known[SIZE] == record[SIZE]:
            count = self.shared.get(buffer_id, 1) + 1
            self.shared[buffer_id] = count
            record = with_count(known, count)
        else:
            self.shared.pop(buffer_id, None)
        self.records[buffer_id] = record

    def free_one(self, buffer_id: int) -> None:
        """A FREE of an id that has several references."""
        count = self.shared.pop(buffer_id) - 1
        if count > 1:
            self.shared[buffer_id] = count
        self.records[buffer_id] = with_count(self.records[buffer_id], count)


class LiveSet:
    """All that is alive, found by the first word of an event (op, kind, flags, device)."""

    def __init__(self, limit: int, core_counts: list[int]) -> None:
        self.room = Room(limit)
        self._core_counts = core_counts
        self._allocated: dict[int, BufferLane] = {}  # by the head of an ALLOC
        self._freed: dict[int, BufferLane] = {}  # the same lanes, by the head of a FREE
        self._handlers: dict[int, Handler] = {}  # by the head of any other event
        self._programs: dict[int, LivePrograms] = {}  # by device

    def apply(self, events: list[bytes]) -> bytearray:
        """Applies events in their order; returns them in a row, as the server should see them."""
        together, room = bytearray().join(events), self.room
        allocated, freed, handlers = self._allocated, self._freed, self._handlers
        keys = HEAD_AND_ID.iter_unpack(together)
        for index, (record, (first, number)) in enumerate(zip(events, keys, strict=True)):
            if (lane := allocated.get(first)) is not None:
                if number in lane.records:
                    lane.allocate_again(number, record)
                elif room.free > 0:
                    room.free -= 1
                    lane.records[number] = record
                else:
                    room.overflow += 1
            elif (lane := freed.get(first)) is not None:
                if lane.shared and number in lane.shared:
                    lane.free_one(number)
                elif lane.records.pop(number, None) is not None:
                    room.free += 1
            else:
                handler = handlers.get(first) or self._handler_for(first)
                changed = handler(first, number, record)
                if changed is not None:
                    start = index * EVENT_SIZE
                    together[start : start + EVENT_SIZE] = changed
        return together

    def alive(self) -> list[bytes]:
        """Everything to be sent again; the records are immutable, so the list is a picture."""
        records: list[bytes] = []
        for lane in self._allocated.values():
            records += lane.records.values()
        for programs in self._programs.values():
            records += programs.alive()
        return records

    def _handler_for(self, first: int) -> Handler:
        device, op = first >> HIGH, first & 0xFF
        if device not in self._programs:
            if len(self._programs) >= MOST_DEVICES:
                return self._ignore
            self._open(device)
        if op in (Op.ALLOC, Op.FREE):
            return self._apply_now
        return self._handlers.setdefault(first, self._programs[device].handlers[op])

    def _apply_now(self, _first: int, _number: int, record: bytes) -> None:
        """For the first event of a device: now there is a lane for it."""
        self.apply([record])

    def _ignore(self, _first: int, _number: int, _record: bytes) -> None:
        """For devices beyond the limit."""
        self.room.overflow += 1

    def _open(self, device: int) -> None:
        bits = device << HIGH
        for kind in MemoryKind:
            lane = BufferLane()
            self._allocated[bits | head(Op.ALLOC, kind)] = lane
            self._freed[bits | head(Op.FREE, kind, Flag.KIND_KNOWN)] = lane
        self._programs[device] = LivePrograms(device, self.room, self._core_counts)
