"""Event records as bytes: how the client packs them, and the parts that it reads or changes."""

from __future__ import annotations

from struct import Struct

from ttmem.events import EVENT, EVENT_SIZE, Flag

# A record as eight numbers, which are packed faster than thirteen: head (op, kind, flags, device),
# time, id, size, extra, address, count and cores, name and site.
WORDS = Struct("<8Q")
HIGH = 32  # bits by which the second number of a word, or the device, is shifted
MOST_32 = (1 << 32) - 1
HEAD_AND_ID = Struct("<Q8xQ40x")
assert WORDS.size == HEAD_AND_ID.size == EVENT.size

SIZE = slice(24, 32)
_LOW_FLAGS = slice(2, None, EVENT_SIZE)  # over many records in a row
_RESENT = bytes(flags | Flag.RESENT for flags in range(256))


def head(op: int, kind: int = 0, flags: int = 0) -> int:
    """The first word, for device 0; plain numbers, because arithmetic on enumerations is slow."""
    return int(op) | int(kind) << 8 | int(flags) << 16


def with_count(record: bytes, count: int) -> bytes:
    """The record with another number of references."""
    return record[:48] + min(count, MOST_32).to_bytes(4, "little") + record[52:]


def resent(records: list[bytes]) -> bytearray:
    """The records in a row, each marked as state rather than news."""
    together = bytearray().join(records)
    together[_LOW_FLAGS] = together[_LOW_FLAGS].translate(_RESENT)
    return together


class Room:
    """How many more entries may be remembered, and how many were not."""

    __slots__ = ("free", "overflow")

    def __init__(self, free: int) -> None:
        self.free = free
        self.overflow = 0

    def take(self) -> bool:
        """True if there is room for one more entry; else it is counted, not remembered."""
        if self.free > 0:
            self.free -= 1
            return True
        self.overflow += 1
        return False
