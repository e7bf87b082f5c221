"""Lock-step allocators: each kind of memory has one free list, which represents all of its banks.

one L1 bank (a core)                    one DRAM bank
| firmware, ring | L1 <---- | L1_SMALL | | reserved | DRAM ---->    | TRACE -> |
                 cb_base               l1_per_core                  dram_view_size
"""

from __future__ import annotations

from dataclasses import dataclass

from ttmem.events import MemoryKind
from ttmem.hw import DeviceSpec
from ttmem.model.errors import BadBuffer, OutOfMemory
from ttmem.model.free_list import FreeList
from ttmem.model.layouts import Interleaved, Layout, Sizing, size_buffer

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
