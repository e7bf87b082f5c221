"""The enumerations that events, wire formats and accounts share."""

from __future__ import annotations

from enum import IntEnum


class MemoryKind(IntEnum):
    """Where a buffer lives; the numbers are the runtime's own BufferType."""

    DRAM = 0
    L1 = 1
    SYSTEM_MEMORY = 2  # host memory: in no device sum
    L1_SMALL = 3
    TRACE = 4


class KernelType(IntEnum):
    """Who a kernel belongs to, as the seeds number them."""

    APPLICATION = 0
    FABRIC = 1
    DISPATCH = 2


class BinaryStatus(IntEnum):
    """How far a program's binaries have come on one device."""

    NOT_SENT = 0
    IN_FLIGHT = 1
    COMMITTED = 2

    @property
    def label(self) -> str:
        """The runtime's own word: NotSent, InFlight, Committed."""
        return self.name.title().replace("_", "")


class Op(IntEnum):
    """What an event says. 1 to 11 are the numbers of the historical wire."""

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
