"""Event records as bytes: how the client packs them, and which parts it reads or changes."""

from __future__ import annotations

from struct import Struct

from ttmem.events import EVENT, EVENT_SIZE, Flag

# A record as eight words, which pack faster than its thirteen fields: head (op, kind, flags, device),
# time, id, size, extra, address, count and cores, name and site.
WORDS = Struct("<8Q")
HIGH = 32  # shift of the second field of a word, and of the device in the head
MOST_32 = (1 << 32) - 1
HEAD_AND_ID = Struct("<Q8xQ40x")
assert WORDS.size == HEAD_AND_ID.size == EVENT.size

SIZE = slice(24, 32)
_LOW_FLAGS = slice(2, None, EVENT_SIZE)  # over many records in a row
_RESENT = bytes(flags | Flag.RESENT for flags in range(256))


def head(op: int, kind: int = 0, flags: int = 0) -> int:
    """The first word, for device 0. Plain integers, because arithmetic on enumerations is slow."""
    return int(op) | int(kind) << 8 | int(flags) << 16


def with_count(record: bytes, count: int) -> bytes:
    return record[:48] + min(count, MOST_32).to_bytes(4, "little") + record[52:]


def resent(records: list[bytes]) -> bytearray:
    """The records concatenated, each marked as existing state rather than a new event."""
    together = bytearray().join(records)
    together[_LOW_FLAGS] = together[_LOW_FLAGS].translate(_RESENT)
    return together
