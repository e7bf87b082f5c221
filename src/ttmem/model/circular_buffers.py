"""Places a program's circular buffers, dataflow buffers and scratchpads in L1.

They grow up from the base of the unreserved L1, at one address on all their cores. There is one
allocator per distinct core range; a buffer is marked on all allocators that share a core with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from ttmem.hw.arch import align_up
from ttmem.model.core_ranges import Core, CoreRange, CoreRangeSet, intersects
from ttmem.model.errors import BeyondL1, ClashFault, RuntimeFault

Region = tuple[int, int]


class ProgramFault(RuntimeFault):
    """The program does not allow this step, or no longer does."""

    exit_code = 2


class BufferKind(Enum):
    CIRCULAR = "circular buffer"
    DATAFLOW = "dataflow buffer"
    SCRATCHPAD = "scratchpad"


@dataclass(slots=True)
class ProgramBuffer:
    """`indices` are its CB ids, or its dataflow slot. A global one aliases an L1 buffer."""

    kind: BufferKind
    cores: CoreRangeSet
    size: int
    indices: tuple[int, ...] = ()
    remote_indices: tuple[int, ...] = ()
    alias_of: int | None = None
    is_global: bool = False
    address: int | None = None


class _CoreRangeAllocator:
    def __init__(self, core_range: CoreRange) -> None:
        self.core_range = core_range
        self.regions: list[Region] = []

    @property
    def end(self) -> int:
        return self.regions[-1][1] if self.regions else 0

    def mark(self, address: int, size: int) -> None:
        if self.regions and self.end == address:
            self.regions[-1] = (self.regions[-1][0], address + size)
        else:
            self.regions.append((address, address + size))


class L1Layout:
    """The placement of one program's buffers, in the order in which they were added."""

    def __init__(self, base: int, alignment: int, buffers: Iterable[ProgramBuffer]) -> None:
        self.base = base
        self._alignment = alignment
        self._by_range: dict[CoreRange, _CoreRangeAllocator] = {}
        placed = list(buffers)
        # A program has circular buffers or dataflow buffers, not both; scratchpads go with dataflow buffers only.
        circular = all(buffer.kind is BufferKind.CIRCULAR for buffer in placed)
        self._what = "circular" if circular else "dataflow"
        # Global ones are in no region, but their core ranges have allocators, which other buffers may mark.
        for buffer in placed:
            if buffer.kind is not BufferKind.SCRATCHPAD:
                self._add_allocators(buffer.cores)
        # Scratchpads stack above dataflow buffers, whenever they were added.
        for buffer in sorted(placed, key=lambda buffer: buffer.kind is BufferKind.SCRATCHPAD):
            self._place(buffer, placed)

    @property
    def end_address(self) -> int:
        """The highest end address on any core; the base if there are no buffers."""
        return (
            max((allocator.end for allocator in self._by_range.values()), default=self.base)
            or self.base
        )

    def regions_per_core(self) -> dict[Core, tuple[Region, ...]]:
        """Each core of a range has the buffers that overlap the range partly, too, like the runtime's total."""
        found: dict[Core, list[Region]] = {}
        for core_range, allocator in self._by_range.items():
            for core in core_range.cores() if allocator.regions else ():
                found.setdefault(core, []).extend(allocator.regions)
        return {core: union(regions) for core, regions in found.items()}

    @property
    def union_bytes(self) -> int:
        """For this program alone, over all cores."""
        return union_bytes([self.regions_per_core()])

    def check_clash(self, lowest_l1_address: int | None, l1_size: int, program_id: int) -> None:
        for core_range, allocator in self._by_range.items():
            if allocator.end > l1_size:
                raise BeyondL1(self._what, str(core_range), allocator.end, l1_size)
            if lowest_l1_address is not None and lowest_l1_address < allocator.end:
                raise ClashFault(
                    self._what, program_id, str(core_range), lowest_l1_address, allocator.end
                )

    def _add_allocators(self, cores: CoreRangeSet) -> None:
        for core_range in cores:
            if core_range not in self._by_range:
                self._by_range[core_range] = _CoreRangeAllocator(core_range)

    def _place(self, buffer: ProgramBuffer, placed: list[ProgramBuffer]) -> None:
        if buffer.is_global:
            return
        if buffer.alias_of is not None:
            buffer.address = placed[buffer.alias_of].address
        elif buffer.kind is BufferKind.SCRATCHPAD:
            buffer.address = self._place_above_all(buffer)
        else:
            buffer.address = self._place_above_own_ranges(buffer)

    def _place_above_own_ranges(self, buffer: ProgramBuffer) -> int:
        """Compares equal core ranges only, so partly overlapping ones may collide. The runtime has the same flaw."""
        address = self._above(self._by_range[core_range] for core_range in buffer.cores)
        for core_range in buffer.cores:
            for allocator in self._by_range.values():
                already_past = allocator.core_range != core_range and address < allocator.end
                if allocator.core_range.intersects(core_range) and not already_past:
                    allocator.mark(address, buffer.size)
        return address

    def _place_above_all(self, buffer: ProgramBuffer) -> int:
        self._add_allocators(buffer.cores)
        touched = [
            allocator
            for allocator in self._by_range.values()
            if intersects(buffer.cores, (allocator.core_range,))
        ]
        address = self._above(touched)
        for allocator in touched:
            allocator.mark(address, buffer.size)
        return address

    def _above(self, allocators: Iterable[_CoreRangeAllocator]) -> int:
        highest = max((allocator.end for allocator in allocators), default=0)
        return align_up(max(self.base, highest), self._alignment)


def union(regions: Iterable[Region]) -> tuple[Region, ...]:
    merged: list[Region] = []
    for start, end in sorted(regions):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return tuple(merged)


def union_bytes(programs: Iterable[Mapping[Core, Iterable[Region]]]) -> int:
    """The runtime's total: what any of the programs uses, core by core, summed over the cores."""
    per_core: dict[Core, list[Region]] = {}
    for program in programs:
        for core, regions in program.items():
            per_core.setdefault(core, []).extend(regions)
    return sum(end - start for regions in per_core.values() for start, end in union(regions))
