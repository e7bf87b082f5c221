"""The event record: 64 bytes, little-endian, the same on the wire, in the ledger and in files.

====== ==== ======== =======================================================================
offset size field    meaning
====== ==== ======== =======================================================================
0      u8   op       `Op`
1      u8   kind     `MemoryKind`, `KernelType` or `BinaryStatus`
2      u16  flags    `Flag`
4      u32  device   logical id, as the sender numbers its devices
8      u64  time     ns since 1970; 0 = unknown, the receiver's clock counts
16     u64  id       buffer id, CB address, kernel id, program id
24     u64  size     bytes: requested (buffer), all cores together (CB), one binary (kernel)
32     u64  extra    reserved bytes (buffer; 0 = unknown), program id (CB, kernel)
40     u64  address  device address (buffer, CB), content id (kernel; 0 = unknown)
48     u32  number   references (buffer, CB; 0 = 1), cores (kernel; 0 = size is the footprint)
52     u32  cores    id of a declared core set, 0 = unknown; of a buffer the string that names its phase
56     u32  name     id of a declared string; 0 = none
60     u32  site     id of a declared string: the call site; 0 = none
====== ==== ======== =======================================================================

RING uses id = occupied bytes of the device, size = capacity (0 = unknown), extra = wraps, address = syncs,
number = programs in the ring. COUNTERS carries absolute values: id = loads, size = unloads, extra = dispatches,
address = cache hits, number = cache misses. CACHE_ENTRIES carries size = entries. PROGRAM_NAME says by whom a program
that is already known was made: id, name, site. From 64 on: `Notice`.

Invariant: the layout is `native/event.hpp`'s too; a test compares them.
"""

from __future__ import annotations

from enum import IntFlag
from struct import Struct
from typing import NamedTuple

EVENT = Struct("<BBHIQQQQQIIII")
EVENT_SIZE = EVENT.size


class Flag(IntFlag):
    """Bits of `Event.flags`."""

    KIND_KNOWN = 1  # a FREE that names its kind
    GLOBAL = 2  # a circular buffer on top of an L1 buffer that is already counted
    DATAFLOW = 4  # a dataflow buffer or scratchpad, counted as a CB
    RESENT = 8  # part of a resync: state, not news
    CACHE_HIT = 16
    CACHE_MISS = 32
    FOOTPRINT = 64  # a kernel load whose size is binary x cores already (historical wire)
    WITH_DEVICE = 128  # freed by nobody: it went when its device was closed


class Event(NamedTuple):
    """One decoded record; many of them stay bytes."""

    op: int
    kind: int = 0
    flags: int = 0
    device: int = 0
    time: int = 0
    id: int = 0
    size: int = 0
    extra: int = 0
    address: int = 0
    number: int = 0
    cores: int = 0
    name: int = 0
    site: int = 0

    def pack(self) -> bytes:
        """The 64 bytes of this event."""
        return EVENT.pack(*self)

    @classmethod
    def unpack(cls, data: bytes, offset: int = 0) -> Event:
        """The event in 64 bytes."""
        return cls._make(EVENT.unpack_from(data, offset))
