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
address = cache hits, number = cache misses. CACHE_ENTRIES carries size = entries. PROGRAM_NAME tells who made a program
that is already known: id, name, site. Values from 64 on are a `Notice`.

Values from 128 on are a `Control`: a journal is a stream of these records, one for each call that changes the native
ledger, with the events that were applied in between. A BATCH announces how many records after it are events of one
account, in their order; a DEFINE_CORES is followed by two records that are the 128 bytes of its mask.

=============== ======= ============= ====== ===== ============================ =================
op              device  time          number cores id                           size
=============== ======= ============= ====== ===== ============================ =================
BATCH           account time received                position of the first event  number of events
OPEN_PROCESS    account               owner
RELEASE_PROCESS account
ADD_DEVICE                            device
CLEAR_DEVICE                          device       1: unbind
BIND            account               number device
MOVE_ACCOUNT    account time received old    new
DEFINE_CORES    account               id
FOLLOW_TABLE    account
BEGIN_RESYNC    account
END_RESYNC      account
RESET_PEAK                            device
L1_BANKS                              device banks
=============== ======= ============= ====== ===== ============================ =================

An account and a device are indices in the ledger; `number` of BIND is the logical id. The position counts the events of
a source; `NO_POSITION` stands before events that are not part of it, such as entries of the probe's live table.

Invariant: `native/event.hpp` has the same layout, which a test compares; `make tables` writes the enums below for C++.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum, IntFlag
from struct import Struct

from ttmem.fast_dataclasses import NamedTuple

EVENT = Struct("<BBHIQQQQQIIII")
EVENT_SIZE = EVENT.size
BLANK = 126  # the op that stands in a recording for an event on a device that was not selected
UPPER_FLAGS = 3  # offset of a byte that is 1 in an event with the flag SAME_SLOT


class KernelType(IntEnum):
    """What a kernel belongs to, numbered as on the historical wire."""

    APPLICATION = 0
    FABRIC = 1
    DISPATCH = 2


class BinaryStatus(IntEnum):
    """Progress of a program's binaries to one device."""

    NOT_SENT = 0
    IN_FLIGHT = 1
    COMMITTED = 2

    @property
    def label(self) -> str:
        """The runtime's own spelling: NotSent, InFlight, Committed."""
        return self.name.title().replace("_", "")


class Op(IntEnum):
    """What happened. Values 1 to 11 are those of the historical wire."""

    ALLOC = 1
    FREE = 2
    CB_ALLOC = 8
    CB_FREE = 9
    KERNEL_LOAD = 10
    KERNEL_UNLOAD = 11
    PROGRAM_DISPATCH = 16
    PROGRAM_DESTROY = 17
    BINARY_STATUS = 18
    RING = 19
    COUNTERS = 20
    CACHE_ENTRIES = 21
    PROGRAM_NAME = 22


class Notice(IntEnum):
    """An `Event.op` that the ledger ignores and lists of events show."""

    DEVICE_OPENED = 64
    DEVICE_CLOSED = 65
    PROGRAM_CREATED = 66
    PROGRAM_COMPILED = 67
    PROGRAM_FINALIZED = 68
    TRACE_BEGUN = 69
    TRACE_CAPTURED = 70
    TRACE_REPLAYED = 71
    TRACE_RELEASED = 72
    ALLOCATION_FAILED = 73
    PHASE_ENTERED = 74
    CB_REFUSED = 75  # of a program that did not fit; its ALLOCATION_FAILED follows
    MARKED = 76  # by the program itself, with `ttmem.mark`

    @property
    def of_device(self) -> bool:
        """Whether `Event.device` is meaningful."""
        return self not in (Notice.PROGRAM_CREATED, Notice.PHASE_ENTERED, Notice.MARKED)


class Control(IntEnum):
    """An `Event.op` that stands only in a journal: a call that changed the native ledger."""

    BATCH = 128
    OPEN_PROCESS = 129
    RELEASE_PROCESS = 130
    ADD_DEVICE = 131
    CLEAR_DEVICE = 132
    BIND = 133
    MOVE_ACCOUNT = 134
    DEFINE_CORES = 135
    FOLLOW_TABLE = 136
    BEGIN_RESYNC = 137
    END_RESYNC = 138
    RESET_PEAK = 139
    L1_BANKS = 140


NO_POSITION = (1 << 64) - 1


class Flag(IntFlag):
    """Bits of `Event.flags`."""

    KIND_KNOWN = 1  # a FREE that states its kind
    GLOBAL = 2  # a circular buffer inside an L1 buffer that is already counted
    DATAFLOW = 4  # a dataflow buffer or scratchpad, counted as a CB
    RESENT = 8  # part of a resync: existing state, not a new event
    CACHE_HIT = 16
    CACHE_MISS = 32
    FOOTPRINT = 64  # a kernel load whose size is already binary x cores (historical wire)
    WITH_DEVICE = 128  # not freed explicitly; it went away when its device was closed
    SAME_SLOT = 256  # the probe has reported it once for all devices of a mesh; this is not the first of them


OP_NAMES: dict[int, str] = {int(op): op.name for op in (*Op, *Notice)}
OF_NO_DEVICE = frozenset(int(notice) for notice in Notice if not notice.of_device)


class Event(NamedTuple):
    """One decoded record. Where there are many, they are kept as bytes."""

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

    def time_by(self, arrived: int) -> int:
        """An event without a time, or with one in the future, gets the time at which it arrived."""
        return self.time if 0 < self.time <= arrived else arrived

    @property
    def is_freed_with_device(self) -> bool:
        """The program never freed this buffer: closing the device did."""
        return self.op == Op.FREE and bool(self.flags & Flag.WITH_DEVICE)

    def pack(self) -> bytes:
        return EVENT.pack(*self)

    @classmethod
    def unpack(cls, data: bytes | memoryview, offset: int = 0) -> Event:
        return cls._make(EVENT.unpack_from(data, offset))


def places(events: bytes, op: int) -> Iterator[int]:
    """The numbers of the events with this op. Most events need not be decoded to find them."""
    ops = events[::EVENT_SIZE]
    at = ops.find(op)
    while at >= 0:
        yield at
        at = ops.find(op, at + 1)


def of_source(events: bytes | memoryview, begin: int = 0, end: int | None = None) -> int:
    """The number of source events between two offsets: an event of a mesh occurs once per device."""
    end = len(events) if end is None else end
    return (end - begin) // EVENT_SIZE - bytes(
        events[begin + UPPER_FLAGS : end : EVENT_SIZE]
    ).count(1)


def end_of(events: bytes | memoryview, number: int) -> int:
    """How many of these events make up the first `number` events of their source."""
    flags = bytes(events[UPPER_FLAGS::EVENT_SIZE])
    begins = [at for at, upper in enumerate(flags) if upper != 1]
    return begins[number] if number < len(begins) else len(flags)
