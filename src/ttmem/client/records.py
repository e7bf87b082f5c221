"""Event records as bytes: the parts of them that the client reads or changes."""

from __future__ import annotations

from struct import Struct

from ttmem.events import EVENT, EVENT_SIZE, Flag

SIZE = slice(24, 32)
EXTRA = slice(32, 40)
COUNT = slice(48, 52)
LOW_FLAGS = slice(2, None, EVENT_SIZE)  # over many records in a row
MOST_32 = (1 << 32) - 1

# A record is its head (op, kind, flags, device) and its body: on a mesh the body is packed once.
BODY = Struct("<QQQQQIIII")
assert BODY.size + 8 == EVENT.size

_RESENT = bytes(flags | Flag.RESENT for flags in range(256))


def number(record: bytes, field: slice) -> int:
    """The number in one field."""
    return int.from_bytes(record[field], "little")


def with_count(record: bytes, count: int) -> bytes:
    """The record with another number of references."""
    return record[:48] + min(count, MOST_32).to_bytes(4, "little") + record[52:]


def resent(records: list[bytes]) -> bytearray:
    """The records in a row, each marked as state rather than news."""
    together = bytearray().join(records)
    together[LOW_FLAGS] = together[LOW_FLAGS].translate(_RESENT)
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
