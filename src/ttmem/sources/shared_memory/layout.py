"""The region that stock ttnn publishes for each device, little endian, 8576 bytes.

| offset       | size | field                                                                  |
|--------------|------|------------------------------------------------------------------------|
| 0            | 4    | version                                                                |
| 4            | 4    | number of active processes (racy: not used)                            |
| 8            | 8    | last update, ns                                                        |
| 16           | 4    | reference count: attached devices, never less after a SIGKILL          |
| 24           | 8    | v1: file number >> 8; later 0                                          |
| 32           | 8    | v1: file number & 0xFF; later the file number, the chip's unique id    |
| 40           | 4    | logical device id of the last process that attached                    |
| 48           | 40   | totals, u64: DRAM, L1, L1_SMALL, TRACE, CB                             |
| 88 + 48 i    | 48   | 16 chips: u32 id, u32 is-remote, five u64 as above                     |
| 856 + 120 j  | 120  | 64 processes: i32 pid, 4 unused, five u64, u64 last update ns, name 64 |
| 8536         | 4    | v4: 0 new, 1 being initialised, 'REDY' ready                           |
| 8540         | 36   | unused                                                                 |

A free process slot has pid 0, and one that is being released -1 (v4). A free chip slot has id 0
in v1, 0xFFFFFFFF later. The timestamps of v1 come from the steady clock, those of the others from
the wall clock. The version word alone tells nothing: two early layouts wrote the same word, so
the size of the file and its name must fit as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct

from ttmem.events.samples import Counters, total

SIZE = 8576
HEAD = Struct("<IIQI4xQQI4x5Q")
CHIP = Struct("<II5Q")
PROCESS = Struct("<i4x5QQ64s")
STATE = Struct("<I")
CHIPS = 16
PROCESSES = 64
CHIPS_AT = HEAD.size
PROCESSES_AT = CHIPS_AT + CHIPS * CHIP.size
STATE_AT = PROCESSES_AT + PROCESSES * PROCESS.size
READY = 0x52454459

VERSIONS = (1, 2, 3, 4)
# The prototypes before the first release counted kernels too, so every offset differs.
PROTOTYPE_SIZES = (9216, 9248, 9280)
_FREE_CHIP = 0xFFFFFFFF


# pid, DRAM, L1, L1_SMALL, TRACE, CB, last update ns, name: plain, as there may be thousands.
Slot = tuple[int, int, int, int, int, int, int, bytes]


@dataclass(frozen=True, slots=True)
class Region:
    """A region of known layout. Slots are those in use; nothing in them has been believed yet."""

    version: int
    references: int
    logical_id: int
    totals: Counters
    chips: Counters | None  # the sum over the chips; None if there are none
    slots: tuple[Slot, ...]


class Unsettled(Exception):
    """The region is being initialised; another look may help."""


class UnknownLayout(Exception):
    """Not a region, or none of a layout that is known; the text says why."""


def decode(data: bytes, number: int) -> Region:
    """The region in these bytes, whose file is named after `number`."""
    if len(data) != SIZE:
        raise UnknownLayout(wrong_size(len(data)))
    head = HEAD.unpack_from(data)
    version, references, high, low, logical_id = head[0], head[3], head[4], head[5], head[6]
    if version == 0:
        raise Unsettled
    if version not in VERSIONS:
        raise UnknownLayout(f"layout version {version}; known are 1 to {VERSIONS[-1]}")
    split = (high, low) == (number >> 8, number & 0xFF)
    if not split and (high, low) != (0, number):
        raise UnknownLayout(
            f"layout version {version}, but the region says that it belongs to chip {low}"
        )
    # A number below 256 looks the same either way; then the word decides.
    if split and number > 0xFF:
        if version > 2:
            raise UnknownLayout(f"layout version {version} with an id in two parts, as v1 has it")
        version = 1  # one early layout already wrote the next version's word
    elif version == 1 and not split:
        raise UnknownLayout("layout version 1, but with an undivided id, as later ones have it")
    if version == 4 and STATE.unpack_from(data, STATE_AT)[0] != READY:
        raise Unsettled
    return Region(
        version=version,
        references=references,
        logical_id=logical_id,
        totals=Counters(*head[7:]),
        chips=_chips(data, version),
        slots=_slots(data),
    )


def wrong_size(size: int) -> str:
    """Why a file of that size is no region, if it is none."""
    if size in PROTOTYPE_SIZES:
        return f"{size} bytes: the layout of a prototype, with kernel counters; not read"
    return f"{size} bytes, where a region has {SIZE}"


def _slots(data: bytes) -> tuple[Slot, ...]:
    table = memoryview(data)[PROCESSES_AT:STATE_AT]
    return tuple([slot for slot in PROCESS.iter_unpack(table) if slot[0]])


def _chips(data: bytes, version: int) -> Counters | None:
    table = memoryview(data)[CHIPS_AT:PROCESSES_AT]
    if version == 1:  # free and the first chip look the same
        used = [fields[2:] for fields in CHIP.iter_unpack(table) if any(fields[2:])]
    else:
        used = [fields[2:] for fields in CHIP.iter_unpack(table) if fields[0] != _FREE_CHIP]
    return total(Counters(*fields) for fields in used) if used else None
