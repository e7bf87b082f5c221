"""The historical messages: fixed records without version, magic or length, in four sizes.

All sizes share a head of 40 bytes, little-endian:

====== ==== ================================================
offset size field
====== ==== ================================================
0      u8   type, 1 to 12 (then 3 bytes of padding)
4      i32  device_id
8      u64  size
16     u8   buffer_type, or kernel type (then 3 bytes of padding)
20     i32  process_id
24     u64  buffer_id
32     u64  timestamp
====== ==== ================================================

The tails differ (`TAILS`); only answers fill them. Invariant: a record that a client sends has a
zero tail, which is what tells the sizes apart.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct, error
from typing import NamedTuple

HEAD = Struct("<B3xiQB3xiQQ")
SIZES = (72, 112, 128, 144)

_FOUR = ("dram_allocated", "l1_allocated", "l1_small_allocated", "trace_allocated")
_TOTALS = ("total_dram_size", "total_l1_size")
_INFO = (
    "arch_type",
    "num_dram_channels",
    "dram_size_per_channel",
    "l1_size_per_core",
    "is_available",
    "num_devices",
)
_RING = ("ringbuffer_total_size", "ringbuffer_used_bytes", "ringbuffer_num_programs")
_SIX = (*_FOUR, "cb_allocated", "kernel_allocated")

TAILS: dict[int, tuple[Struct, tuple[str, ...]]] = {
    72: (Struct("<4Q"), _FOUR),
    112: (Struct("<6Q6I"), (*_FOUR, *_TOTALS, *_INFO)),
    128: (Struct("<8Q6I"), (*_SIX, *_TOTALS, *_INFO)),
    144: (Struct("<8Q9I4x"), (*_SIX, *_TOTALS, *_INFO, *_RING)),
}


class Message(IntEnum):
    ALLOC = 1
    FREE = 2
    QUERY = 3
    RESPONSE = 4
    DUMP_REMAINING = 5
    DEVICE_INFO_QUERY = 6
    DEVICE_INFO_RESPONSE = 7
    CB_ALLOC = 8
    CB_FREE = 9
    KERNEL_LOAD = 10
    KERNEL_UNLOAD = 11
    DUMP_KERNELS = 12


QUESTIONS = frozenset(
    {Message.QUERY, Message.DUMP_REMAINING, Message.DEVICE_INFO_QUERY, Message.DUMP_KERNELS}
)
ANSWERS = frozenset({Message.RESPONSE, Message.DEVICE_INFO_RESPONSE})
ARCH_NUMBERS = {"grayskull": 1, "wormhole": 2, "blackhole": 3, "quasar": 4}


class Head(NamedTuple):
    """The common head of a record."""

    type: int
    device: int = 0
    size: int = 0
    buffer_type: int = 0
    pid: int = 0
    id: int = 0
    timestamp: int = 0


def encode(record_size: int, head: Head, tail: dict[str, int] | None = None) -> bytes:
    """A record of that size. Fields that it has no room for are left out; values are cut to what fits."""
    layout, names = TAILS[record_size]
    given = tail or {}
    try:
        return HEAD.pack(*head) + layout.pack(*[given.get(name, 0) for name in names])
    except error:  # some value does not fit
        widest = [1 << (64 if name in (*_SIX, *_TOTALS) else 32) for name in names]
        cut = [min(given.get(name, 0), end - 1) for name, end in zip(names, widest, strict=True)]
        return HEAD.pack(*head) + layout.pack(*cut)


def decode_tail(record: bytes) -> dict[str, int]:
    """The tail of an answer, by field name."""
    layout, names = TAILS[len(record)]
    return dict(zip(names, layout.unpack_from(record, HEAD.size), strict=True))


def decode_head(data: bytes, offset: int = 0) -> Head:
    return Head._make(HEAD.unpack_from(data, offset))
