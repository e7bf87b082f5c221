"""Which workloads' binaries are still in the prefetcher's L1 and need not be read from DRAM again.

Like the runtime's RingbufferCacheManager: whole blocks, oldest evicted first, none split.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from ttmem.errors import BadInput
from ttmem.hw import DeviceSpec, Dispatch

WORKER_CACHE = 1024 * 1024
ETH_CACHE = 67 * 1024


class CacheOffset(NamedTuple):
    is_cached: bool
    offset: int


class CacheEntry(NamedTuple):
    """Offset and size are bytes, in whole blocks."""

    workload: int
    offset: int
    size: int


def prefetcher_cache(spec: DeviceSpec) -> PrefetcherCache:
    """The cache of that device; with dispatch on Ethernet cores it is smaller."""
    size = ETH_CACHE if spec.dispatch is Dispatch.ETH else WORKER_CACHE
    return PrefetcherCache(size, spec.dram_alignment)


class PrefetcherCache:
    def __init__(self, size: int, block: int) -> None:
        if block <= 0 or size < block:
            raise BadInput(f"a cache of {size} bytes has no block of {block}")
        self._block = block
        self.size = size // block * block
        self._entries: deque[CacheEntry] = deque()
        self._offsets: dict[int, int] = {}
        self._next = 0
        self.hits = 0
        self.misses = 0

    @property
    def entries(self) -> tuple[CacheEntry, ...]:
        """The oldest first."""
        return tuple(self._entries)

    def query(self, workload: int, size: int) -> CacheOffset | None:
        """Where the workload's binaries are from now on; None if they cannot be cached."""
        offset = self._offsets.get(workload)
        if offset is not None:
            self.hits += 1
            return CacheOffset(True, offset)
        self.misses += 1
        needed = -(-size // self._block) * self._block
        if not 0 < needed <= self.size:
            # What does not fit is streamed through the same memory and overwrites it.
            self.reset()
            return None
        offset = self._make_room(needed) if self._entries else 0
        self._entries.append(CacheEntry(workload, offset, needed))
        self._offsets[workload] = offset
        self._next = (offset + needed) % self.size
        return CacheOffset(False, offset)

    def reset(self) -> None:
        """After reads of buffers and cores, and trace replays, which use the same memory."""
        self._entries.clear()
        self._offsets.clear()
        self._next = 0

    def _make_room(self, needed: int) -> int:
        fits_in_tail = self.size - self._next >= needed
        behind_oldest = self._next > self._entries[0].offset
        if behind_oldest and fits_in_tail:
            return self._next
        if fits_in_tail:
            self._invalidate_for(needed, self._next)
            return self._next
        if not behind_oldest:
            self._invalidate_until_wraparound()
        self._invalidate_for(needed, 0)
        return 0

    def _invalidate_for(self, needed: int, offset: int) -> None:
        if not self._entries:
            return
        # Adds sizes instead of comparing offsets, so it misses an unused tail, as the runtime does.
        room = self._entries[0].offset - offset
        while room < needed and self._entries:
            room += self._invalidate_oldest()

    def _invalidate_until_wraparound(self) -> None:
        while self._entries and self._entries[0].offset >= self._next:
            self._invalidate_oldest()

    def _invalidate_oldest(self) -> int:
        oldest = self._entries.popleft()
        del self._offsets[oldest.workload]
        return oldest.size
