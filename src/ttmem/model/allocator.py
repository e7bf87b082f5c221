"""Lock-step allocators: each kind of memory has one free list, which represents all of its banks.

one L1 bank (a core)                    one DRAM bank
| firmware, ring | L1 <---- | L1_SMALL | | reserved | DRAM ---->    | TRACE -> |
                 cb_base               l1_per_core                  dram_view_size
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass

from ttmem.events import MemoryKind
from ttmem.hw import DeviceSpec
from ttmem.hw.arch import align_up
from ttmem.model.errors import BadBuffer, DoubleFree, OutOfMemory
from ttmem.model.layouts import Interleaved, Layout, Sizing, size_buffer

# First fit over one range of addresses, like the runtime's FreeListOpt with policy FIRST.
#
# Free blocks are kept by size class (powers of two), each class sorted by address. In every class
# above the wanted one all blocks fit, so only one class is searched, however fragmented the rest is.


class FreeList:
    """The addresses from `base` to `base + size`, given out in multiples of `alignment`."""

    def __init__(self, base: int, size: int, alignment: int) -> None:
        if base % alignment or size % alignment:
            raise ValueError(f"base {base} and size {size} must be multiples of {alignment}")
        self.base = base
        self.size = size
        self.alignment = alignment
        self.allocated_bytes = 0
        self._allocated: dict[int, int] = {}  # size by address
        self._free: dict[int, int] = {}  # size by address
        self._free_by_end: dict[int, int] = {}  # address by end
        self._classes: list[list[int]] = [[] for _ in range(size.bit_length() + 1)]
        if size:
            self._add_free(base, size)

    @property
    def free_bytes(self) -> int:
        """Free bytes, contiguous or not."""
        return self.size - self.allocated_bytes

    @property
    def largest_free_bytes(self) -> int:
        largest = next((blocks for blocks in reversed(self._classes) if blocks), [])
        return max((self._free[address] for address in largest), default=0)

    def allocate(self, size: int, top_down: bool = False, floor: int = 0) -> int | None:
        """The lowest (or highest) address where it fits. None if it fits nowhere, or only below `floor`."""
        wanted = max(align_up(size, self.alignment), self.alignment)
        block = self._find(wanted, top_down)
        if block is None:
            return None
        length = self._free[block]
        address = block + length - wanted if top_down else block
        # The runtime gives up here too: the first block it finds is below the floor.
        if address < floor:
            return None
        self._take_free(block)
        if length > wanted:
            self._add_free(block if top_down else block + wanted, length - wanted)
        self._allocated[address] = wanted
        self.allocated_bytes += wanted
        return address

    def free(self, address: int) -> int:
        """Frees a block and merges it with free neighbours; returns the number of bytes freed."""
        size = self._allocated.pop(address, None)
        if size is None:
            raise DoubleFree(address)
        self.allocated_bytes -= size
        start, end = address, address + size
        if end in self._free:
            end += self._take_free(end)
        if start in self._free_by_end:
            start = self._free_by_end[start]
            self._take_free(start)
        self._add_free(start, end - start)
        return size

    def lowest_occupied(self) -> int | None:
        """The lowest allocated address. Free blocks are merged, so at most one precedes it."""
        lowest = self.base + self._free.get(self.base, 0)
        return lowest if self._allocated else None

    def blocks(self) -> list[tuple[int, int, bool]]:
        """(address, size, whether it is allocated), lowest first: all of the range, without a gap.

        A range of no bytes is one free block, as the runtime shows it.
        """
        if not self.size:
            return [(self.base, 0, False)]
        taken = [(address, size, True) for address, size in self._allocated.items()]
        return sorted(taken + [(address, size, False) for address, size in self._free.items()])

    def _find(self, wanted: int, top_down: bool) -> int | None:
        first = wanted.bit_length()
        if first >= len(self._classes):
            return None
        own = reversed(self._classes[first]) if top_down else self._classes[first]
        fitting = [next((block for block in own if self._free[block] >= wanted), None)]
        fitting += [
            blocks[-1 if top_down else 0] for blocks in self._classes[first + 1 :] if blocks
        ]
        found = [block for block in fitting if block is not None]
        if not found:
            return None
        return max(found) if top_down else min(found)

    def _add_free(self, address: int, size: int) -> None:
        self._free[address] = size
        self._free_by_end[address + size] = address
        insort(self._classes[size.bit_length()], address)

    def _take_free(self, address: int) -> int:
        size = self._free.pop(address)
        del self._free_by_end[address + size]
        blocks = self._classes[size.bit_length()]
        del blocks[bisect_left(blocks, address)]
        return size


_IN_L1 = (MemoryKind.L1, MemoryKind.L1_SMALL)


@dataclass(frozen=True, slots=True)
class MemoryView:
    """One kind of memory, by the names of `ttnn.get_memory_view`."""

    num_banks: int
    total_bytes_per_bank: int
    total_bytes_allocated_per_bank: int
    total_bytes_free_per_bank: int
    largest_contiguous_bytes_free_per_bank: int


class Allocator:
    """The addresses of one device, or of a mesh of equal devices."""

    def __init__(self, spec: DeviceSpec) -> None:
        self.spec = spec
        small_base = spec.cb_base + spec.l1_bank_size
        trace_base = spec.dram_reserved + spec.dram_bank_size
        align = spec.dram_alignment  # for L1 blocks too, as in the runtime
        self._lists = {
            MemoryKind.DRAM: FreeList(spec.dram_reserved, spec.dram_bank_size, align),
            MemoryKind.TRACE: FreeList(trace_base, spec.trace_bank_size, align),
            MemoryKind.L1: FreeList(spec.cb_base, spec.l1_bank_size, align),
            MemoryKind.L1_SMALL: FreeList(small_base, spec.l1_small_bank_size, align),
        }

    def num_banks(self, kind: MemoryKind) -> int:
        return self.spec.l1_banks if kind in _IN_L1 else self.spec.dram_banks

    def free_list(self, kind: MemoryKind) -> FreeList:
        """The free list that represents every bank of this kind."""
        found = self._lists.get(kind)
        if found is None:
            raise BadBuffer(f"a device has no memory of kind {kind!r:.40}")
        return found

    def size_buffer(self, kind: MemoryKind, size: int, page_size: int, layout: Layout) -> Sizing:
        """The pages and bytes that a buffer occupies in this memory."""
        self.free_list(kind)
        if kind == MemoryKind.L1_SMALL and isinstance(layout, Interleaved):
            raise BadBuffer("L1_SMALL only supports sharded allocations")
        spec = self.spec
        return size_buffer(
            size,
            page_size,
            layout,
            banks=self.num_banks(kind),
            page_alignment=spec.l1_alignment if kind in _IN_L1 else spec.dram_alignment,
            block_alignment=spec.dram_alignment,
        )

    def allocate(self, kind: MemoryKind, sizing: Sizing, bottom_up: bool | None = None) -> int:
        """The address of a new block in every bank; by default from the end that this kind of memory uses."""
        blocks = self.free_list(kind)
        top_down = kind in _IN_L1 if bottom_up is None else not bottom_up
        address = blocks.allocate(sizing.block, top_down)
        if address is None:
            raise self._out_of_memory(kind, sizing)
        return address

    def free(self, kind: MemoryKind, address: int) -> int:
        """Frees the block in every bank; returns its size."""
        return self.free_list(kind).free(address)

    def lowest_occupied_l1_address(self) -> int | None:
        """Where circular buffers must end; None if there are no L1 buffers."""
        return self._lists[MemoryKind.L1].lowest_occupied()

    def memory_view(self, kind: MemoryKind) -> MemoryView:
        """Size, used bytes and largest free block of each bank."""
        blocks = self.free_list(kind)
        none = kind == MemoryKind.L1_SMALL and not blocks.size  # its banks are created on demand
        return MemoryView(
            num_banks=0 if none else self.num_banks(kind),
            total_bytes_per_bank=blocks.size,
            total_bytes_allocated_per_bank=blocks.allocated_bytes,
            total_bytes_free_per_bank=blocks.free_bytes,
            largest_contiguous_bytes_free_per_bank=blocks.largest_free_bytes,
        )

    def _out_of_memory(self, kind: MemoryKind, sizing: Sizing) -> OutOfMemory:
        blocks = self.free_list(kind)
        return OutOfMemory(
            kind.name,
            size=sizing.aligned_size,
            banks=sizing.banks,
            per_bank=sizing.per_bank,
            bank_size=blocks.size,
            allocated=blocks.allocated_bytes,
            free=blocks.free_bytes,
            largest_free=blocks.largest_free_bytes,
        )
