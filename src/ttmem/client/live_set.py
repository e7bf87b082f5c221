"""What is alive in this process, so that a server that comes late, or again, can be told.

Every entry is kept as the 64 bytes of the event that made it, ready to be sent again. Entries lie
in *lanes*: the buffers of one kind on one device, or all programs of one device (`program_lane`).
No event touches two lanes, so a lane can be captured and sent by itself: only what happens in it
after that must come after it in the stream.

The rules are the ledger's: an equal ALLOC is one more reference, a different one replaces; a
KERNEL_LOAD of a live id is a dispatch; program 0 is no program.
"""

from __future__ import annotations

from typing import Protocol

from ttmem.client.program_lane import ProgramLane
from ttmem.client.records import MOST_32, SIZE, Room, with_count
from ttmem.events import Flag, MemoryKind, Op

MOST_DEVICES = 4096


class Lane(Protocol):
    """What the outbox needs of a lane."""

    streaming: bool  # events of this lane go into the queue

    def alive(self) -> list[bytes]:
        """Everything to be sent again; the records are immutable, so the list is a picture."""


class BufferLane:
    """The live buffers of one kind on one device; the client's hot path works on its fields."""

    __slots__ = ("alloc_head", "free_head", "records", "shared", "streaming")

    def __init__(self, device: int, kind: MemoryKind, streaming: bool) -> None:
        number = device.to_bytes(4, "little")
        self.alloc_head = bytes((Op.ALLOC, kind, 0, 0)) + number
        self.free_head = bytes((Op.FREE, kind, Flag.KIND_KNOWN, 0)) + number
        self.records: dict[int, bytes] = {}
        self.shared: dict[int, int] = {}  # references, of those that have more than one
        self.streaming = streaming

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

    def alive(self) -> list[bytes]:
        return list(self.records.values())


class DeviceAccount:
    """All that is alive on one device."""

    __slots__ = ("buffers", "programs")

    def __init__(self, device: int, room: Room, streaming: bool) -> None:
        self.buffers = {kind: BufferLane(device, kind, streaming) for kind in MemoryKind}
        self.programs = ProgramLane(device, room, streaming)

    def lanes(self) -> list[Lane]:
        """The buffers first: circular buffers may lie on them."""
        return [*self.buffers.values(), self.programs]


class LiveSet:
    """All that is alive in this process."""

    __slots__ = ("accounts", "room")

    def __init__(self, limit: int) -> None:
        self.room = Room(limit)
        self.accounts: dict[int, DeviceAccount] = {}

    def account(self, device: int, streaming: bool) -> DeviceAccount:
        """The account of a device, new when it is first named; ValueError if it is no device."""
        known = self.accounts.get(device)
        if known is not None:
            return known
        if len(self.accounts) >= MOST_DEVICES or not 0 <= device <= MOST_32:
            raise ValueError(f"{device} is no device number, or one too many")
        return self.accounts.setdefault(device, DeviceAccount(device, self.room, streaming))

    def lanes(self) -> list[Lane]:
        """Those of all devices."""
        return [lane for account in self.accounts.values() for lane in account.lanes()]
