"""First fit over one range of addresses, like the runtime's FreeListOpt with policy FIRST.

Free blocks are kept by size class (powers of two), each class sorted by address. In every class
above the wanted one all blocks fit, so only one class is searched, however fragmented the rest is.
"""

from __future__ import annotations

from bisect import bisect_left, insort

from ttmem.hw.arch import align_up
from ttmem.model.errors import DoubleFree


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

    def allocated_blocks(self) -> list[tuple[int, int]]:
        """(address, size), lowest first."""
        return sorted(self._allocated.items())

    def free_blocks(self) -> list[tuple[int, int]]:
        """(address, size), lowest first."""
        return sorted(self._free.items())

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
