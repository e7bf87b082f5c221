"""The few rules of protobuf's wire format that Perfetto traces and pprof profiles need."""

from __future__ import annotations

import struct
from collections.abc import Iterable

_VARINT, _DOUBLE, _BYTES = 0, 1, 2


def varint(value: int) -> bytes:
    """A number; negative ones take ten bytes, as int64 does."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number: int, value: float | str | bytes) -> bytes:
    """One field: a number, a string, or an encoded message."""
    if isinstance(value, int):
        return varint(number << 3 | _VARINT) + varint(value)
    if isinstance(value, float):
        return varint(number << 3 | _DOUBLE) + struct.pack("<d", value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | _BYTES) + varint(len(data)) + data


def packed(number: int, values: Iterable[int]) -> bytes:
    """A repeated integer."""
    return field(number, b"".join(map(varint, values)))
