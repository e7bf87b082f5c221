"""The region that a runtime publishes for each device, little endian.

| offset       | with kernels | size      | field                                                        |
|--------------|--------------|-----------|--------------------------------------------------------------|
| 0            | 0            | 4         | version                                                      |
| 4            | 4            | 4         | number of active processes (racy: not used)                  |
| 8            | 8            | 8         | last update, ns                                              |
| 16           | 16           | 4         | reference count: attached devices, never less after a SIGKILL|
| 24           | 24           | 8         | v1: file number >> 8; later 0                                |
| 32           | 32           | 8         | v1: file number & 0xFF; later the file number, the chip's id |
| 40           | 40           | 4         | logical device id of the last process that attached          |
| 48           | 48           | 40 or 48  | totals, u64: DRAM, L1, L1_SMALL, TRACE, CB (, kernels)       |
| 88 + 48 i    | 96 + 56 i    | 48 or 56  | 16 chips: u32 id, u32 is-remote, counters as above           |
| 856 + 120 j  | 992 + 128 j  | 120 or 128| 64 processes: i32 pid, 4 unused, counters as above,          |
|              |              |           | u64 last update ns, name 64                                  |
| 8536         |              | 4         | v4: 0 new, 1 being initialised, 'REDY' ready                 |
| 8540         | 9184         | 36 or 96  | unused                                                       |

Stock ttnn has 8576 bytes. The prototypes before it counted kernels too, in 9280 bytes with the word 1
(9248 in a build that does not align the structure).

A free process slot has pid 0, and one that is being released -1 (v4). A free chip slot has id 0
in v1, 0xFFFFFFFF later. The timestamps of v1 come from the steady clock or the wall clock, those of the
others from the wall clock. The version word alone tells nothing: early layouts wrote the same word, so
the size of the file, its name and what free chip slots look like must fit as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct

from ttmem.events import Amounts
from ttmem.events.device import LARGEST
from ttmem.fast_dataclasses import dataclass

CHIPS = 16
PROCESSES = 64
STATE = Struct("<I")
READY = 0x52454459

VERSIONS = (1, 2, 3, 4)
_FREE_CHIP = 0xFFFFFFFF


# pid, DRAM, L1, L1_SMALL, TRACE, CB, last update ns, name: plain, as there may be thousands.
Slot = tuple[int, int, int, int, int, int, int, bytes]


@dataclass(frozen=True, slots=True)
class Layout:
    """Positions of the parts of a file."""

    size: int
    head: Struct
    chip: Struct
    process: Struct
    counts_kernels: bool = False

    @property
    def chips_at(self) -> int:
        return self.head.size

    @property
    def processes_at(self) -> int:
        return self.chips_at + CHIPS * self.chip.size

    @property
    def processes_end(self) -> int:
        return self.processes_at + PROCESSES * self.process.size

    def place(self, index: int) -> int:
        """The offset of a process slot."""
        if not 0 <= index < PROCESSES:
            raise ValueError(f"there is no row {index}")
        return self.processes_at + index * self.process.size

    def slot(self, raw: bytes) -> Slot:
        """One process slot, without its kernels."""
        fields = self.process.unpack(raw)
        return (*fields[:6], *fields[7:]) if self.counts_kernels else fields


STOCK = Layout(8576, Struct("<IIQI4xQQI4x5Q"), Struct("<II5Q"), Struct("<i4x5QQ64s"))
_WITH_KERNELS = Struct("<IIQI4xQQI4x6Q"), Struct("<II6Q"), Struct("<i4x6QQ64s")
LAYOUTS = {
    layout.size: layout
    for layout in (STOCK, Layout(9280, *_WITH_KERNELS, True), Layout(9248, *_WITH_KERNELS, True))
}


@dataclass(frozen=True, slots=True)
class CounterRegion:
    """The contents of a file of known layout. `slots` are those in use, unchecked."""

    version: int
    references: int
    logical_id: int
    totals: Amounts
    chips: Amounts | None  # the sum over the chips; None if there are none
    slots: tuple[Slot, ...]
    # By published pid, where the layout has them; None: impossible, or of two slots with the same pid.
    kernels: Mapping[int, int | None] | None = None


class Unsettled(Exception):
    """The file is being initialised; try again."""


class UnknownLayout(Exception):
    """Not a counter file, or one of an unknown layout; the text says why."""


def decode(data: bytes, number: int) -> CounterRegion:
    """`number` is the one in the name of the file."""
    layout = LAYOUTS.get(len(data))
    if layout is None:
        raise UnknownLayout(wrong_size(len(data)))
    head = layout.head.unpack_from(data)
    if head[0] == 0:
        raise Unsettled
    chips = list(layout.chip.iter_unpack(data[layout.chips_at : layout.processes_at]))
    version = _version(layout, head, any(chip[0] == _FREE_CHIP for chip in chips), number)
    if version == 4 and STATE.unpack_from(data, layout.processes_end)[0] != READY:
        raise Unsettled
    slots = layout.process.iter_unpack(memoryview(data)[layout.processes_at : layout.processes_end])
    used = [slot for slot in slots if slot[0]]
    kernels = None
    if layout.counts_kernels:
        kernels = _kernels(used)
        used = [(*slot[:6], *slot[7:]) for slot in used]
    return CounterRegion(
        version=version,
        references=head[3],
        logical_id=head[6],
        totals=Amounts(*head[7:12]),
        chips=_chips(chips, version),
        slots=tuple(used),
        kernels=kernels,
    )


def _version(layout: Layout, head: tuple[int, ...], later_chips: bool, number: int) -> int:
    """From version word, size, id and free chip slots; `later_chips`: some are free as in v2 and later."""
    word, high, low = head[0], head[4], head[5]
    if word not in VERSIONS:
        raise UnknownLayout(f"layout version {word}; known are 1 to {VERSIONS[-1]}")
    split = (high, low) == (number >> 8, number & 0xFF)
    if not split and (high, low) != (0, number):
        raise UnknownLayout(
            f"layout version {word}, but the region says that it belongs to chip {low}"
        )
    if layout.counts_kernels and word != 1:
        raise UnknownLayout(
            f"layout version {word} in {layout.size} bytes, which only version 1 has"
        )
    # A number below 256 looks the same either way; then the word and the chips decide.
    two_parts = split and number > 0xFF
    if two_parts and word > 2:
        raise UnknownLayout(f"layout version {word} with an id in two parts, as v1 has it")
    if word == 1 and not split:
        raise UnknownLayout("layout version 1, but with an undivided id, as later ones have it")
    # One early layout already wrote the next version's word.
    first = word == 1 or two_parts or (split and word == 2 and not later_chips)
    if first and later_chips:
        raise UnknownLayout(f"layout version {word}, but free chips are marked as in later ones")
    return 1 if first else word


def wrong_size(size: int) -> str:
    return f"{size} bytes, where a region has {STOCK.size}, or 9280 with kernel counters"


def _kernels(slots: list[tuple[int, ...]]) -> dict[int, int | None]:
    found: dict[int, int | None] = {}
    for slot in slots:
        plain = slot[6] < LARGEST and slot[0] not in found
        found[slot[0]] = slot[6] if plain else None
    return found


def _chips(chips: list[tuple[int, ...]], version: int) -> Amounts | None:
    if version == 1:  # free and the first chip look the same
        used = [fields[2:7] for fields in chips if any(fields[2:7])]
    else:
        used = [fields[2:7] for fields in chips if fields[0] != _FREE_CHIP]
    return Amounts.total(Amounts(*fields) for fields in used) if used else None


# For provenance: what the figures of CB mean, and what all of them miss.
Meaning = tuple[str, str]

_OPENER_ONLY = "buffers that other threads than the one that opened the device allocate or free"
_BEFORE_EXEC = (
    "that a process which called exec and opened the device again has let go of what it held before"
)
_LEFT_OUT = "dataflow buffers and scratchpads, kernel code in L1, bank padding"

_CACHED = (
    "union over all cached programs of the process: a high-water mark, updated at most 10 times a second",
    f"{_OPENER_ONLY}; {_LEFT_OUT}; the last change of CB in a burst; {_BEFORE_EXEC}",
)
_RESIDENT = ("residency at the last dispatch", _LEFT_OUT)

# Some of its builds publish rows of processes only if they are told to; totals name nobody.
_COUNTING_KERNELS = (
    "as that build of the runtime counted: the sum, or the union over all cached programs of the process",
    f"{_OPENER_ONLY}; {_LEFT_OUT}; processes of builds that need TT_METAL_SHM_STATS_PER_PID=1, without it",
)

_BY_VERSION = {1: _CACHED, 2: _CACHED, 3: _CACHED, 4: _RESIDENT}


def meaning_of(region: CounterRegion) -> Meaning:
    return _BY_VERSION[region.version] if region.kernels is None else _COUNTING_KERNELS
