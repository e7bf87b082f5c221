"""The region's layout, as documented in `native/probe/layout.hpp`.

A golden region in `tests/data` is checked against both.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag
from struct import Struct

from ttmem.events import Notice as Notice

MAGIC = b"TTMEMPRB"
VERSION = 2  # as the probe writes it
COMPACT_VERSION = 3  # of a dead process: tables cut to what is used, few events or none
HEADER_SIZE = 4096
FILE_PREFIX = "ttmem_"
SET_OF_DEVICES = 1 << 31
KINDS = 8  # counters of a device: the runtime's five kinds, then `Counted`

HEADER = Struct("<8sIIQIIQQQII")
SECTION = Struct("<QII")
SECTIONS_AT = 64
SIZE_AT = 16
TRACKING_AT = 28
ENDED_AT = 48
TICKETS_AT = 512
GIVEN_UP_AT = 576
LIVE_AT = 640
STRINGS_AT = 704
TABLES_AT = 768
FAILURES_AT = 832
UNPAIRED_AT = 896
UNSEEN_AT = 904
FORGOTTEN_AT = 912
LAST_EVENT_AT = 920  # in a compact region

COUNTER = Struct("<6QIIQ2QIIQ32x")
ACTIVITY = Struct("<12Q32x")
SLOT_SIZE = 88
SIDE = Struct("<IHBx")
LIVE = Struct("<7Q6IHHBBxxII")
STRING = Struct("<QII")
DEVICE = Struct("<QQ5Q5I5IQQII")
DEVICE_1 = Struct("<QQ5Q5I5IQ")  # in regions of version 1
SET = Struct("<QII64H")
CORES = Struct("<QII64H")
FEATURE = Struct("<56sII")
FAILURE = Struct("<4Q6I968s")


class Section(IntEnum):
    """The tables of a region, in the order of its header."""

    COUNTERS = 0
    ACTIVITY = 1
    RING = 2
    LIVE_KEYS = 3
    LIVE = 4
    STRINGS = 5
    TEXT = 6
    DEVICES = 7
    SETS = 8
    CORES = 9
    FEATURES = 10
    FAILURES = 11


# Bytes per record, and how many any reader accepts: four times what the probe creates; for ring and live table, what
# `ttmem run` can ask for.
_SIZES = {
    Section.COUNTERS: (COUNTER.size, 256 * KINDS),
    Section.ACTIVITY: (ACTIVITY.size, 256),
    Section.RING: (SLOT_SIZE, 1 << 24),
    Section.LIVE_KEYS: (8, 1 << 24),
    Section.LIVE: (LIVE.size, 1 << 24),
    Section.STRINGS: (STRING.size, 1 << 17),
    Section.TEXT: (1, 1 << 23),
    Section.DEVICES: (DEVICE.size, 256),
    Section.SETS: (SET.size, 1024),
    Section.CORES: (CORES.size, 1 << 14),
    Section.FEATURES: (FEATURE.size, 256),
    Section.FAILURES: (FAILURE.size, 256),
}
STRIDES = {section: stride for section, (stride, _) in _SIZES.items()}
LARGEST = {section: largest for section, (_, largest) in _SIZES.items()}
# by version
STRIDES_OF = {
    1: STRIDES | {Section.DEVICES: DEVICE_1.size},
    VERSION: STRIDES,
    COMPACT_VERSION: STRIDES,
}


class RegionState(IntEnum):
    MAKING = 0
    IN_USE = 1
    ENDED = 2  # in order; a killed process stays IN_USE


class Option(IntFlag):
    """What was requested of the process."""

    CALL_SITES = 1
    STACKS = 2


class Counted(IntEnum):
    """Counters in addition to the kinds of memory."""

    CB_DEMAND = 5
    DATAFLOW_DEMAND = 6
    KERNEL_BINARIES = 7  # a part of DRAM


class LiveType(IntEnum):
    """The upper byte of a live key."""

    BUFFER = 1
    CIRCULAR_BUFFER = 2
    PROGRAM = 3
    KERNEL = 4
    LEFT_BUFFER = 5  # no longer alive: freed only because its device was closed
    LAID_OUT = 6  # not alive yet: a circular buffer of a program that the runtime may still reject


HOLDS_BINARIES = 256  # a flag of a live buffer
ID_MASK = (1 << 56) - 1
