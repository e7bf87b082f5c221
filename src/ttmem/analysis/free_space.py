"""The smallest value of the largest free block in each phase: the number that predicts the next failure."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from typing import NamedTuple

from ttmem.analysis.history import History
from ttmem.events import MemoryKind

KINDS = (MemoryKind.DRAM, MemoryKind.L1, MemoryKind.L1_SMALL, MemoryKind.TRACE)


class LeastFree(NamedTuple):
    """Like `largest_free` of a snapshot; after an allocation in that phase."""

    device: str  # unique id
    kind: str
    phase: str | None
    largest_free: int  # bytes in all banks together
    per_bank: int  # as in the runtime's messages
    position: int  # the state in which it was that small
    time_ns: int


class _Gaps:
    """The free list of one bank of a lock-step allocator, updated as blocks are allocated and freed."""

    def __init__(self, base: int, size: int, banks: int) -> None:
        self._banks = banks
        # Blocks; one sentinel before and one after all.
        self._starts, self._ends = [base + size], [base]
        self._gaps = [size]  # in ascending order
        self.fits = True  # False: these cannot be the blocks of one allocator

    @property
    def largest(self) -> int:
        return self._gaps[-1]

    def add(self, address: int | None, reserved: int | None) -> None:
        block = self._block(address, reserved)
        if block is None or not self.fits:
            self.fits = False
            return
        start, end = block
        at = bisect_left(self._starts, start)
        before = self._ends[at] if at < len(self._ends) else None
        after = self._starts[at] if at < len(self._starts) else None
        if before is None or after is None or start < before or end > after:
            self.fits = False
            return
        self._take(after - before)
        insort(self._gaps, start - before)
        insort(self._gaps, after - end)
        self._starts.insert(at, start)
        self._ends.insert(at + 1, end)

    def remove(self, address: int | None, reserved: int | None) -> None:
        block = self._block(address, reserved)
        if block is None or not self.fits:
            return
        start, end = block
        at = bisect_left(self._starts, start)
        if self._starts[at] != start or self._ends[at + 1] != end:
            self.fits = False
            return
        before, after = self._ends[at], self._starts[at + 1]
        self._take(start - before)
        self._take(after - end)
        insort(self._gaps, after - before)
        del self._starts[at], self._ends[at + 1]

    def _block(self, address: int | None, reserved: int | None) -> tuple[int, int] | None:
        if address is None or reserved is None or reserved % self._banks:
            return None
        return address, address + reserved // self._banks

    def _take(self, gap: int) -> None:
        del self._gaps[bisect_right(self._gaps, gap) - 1]


def least_free(history: History) -> list[LeastFree]:
    """For every device, kind of memory and phase.

    Leaves out memories in which addresses are unknown, overlap, or belong to two allocators.
    """
    gaps: dict[tuple[str, str], tuple[_Gaps, int]] = {}
    for device in history.devices:
        for kind in KINDS:
            number, size, base = history.recording.banks(device, kind)
            if number and size and base is not None:
                gaps[device, kind.name] = _Gaps(base, size, number), number
    least: dict[tuple[str, str, str | None], LeastFree] = {}
    for change in history.buffers():
        if (change.device, change.kind) not in gaps:
            continue
        known, banks = gaps[change.device, change.kind]
        if not change.begins:
            known.remove(change.address, change.reserved)
            continue
        known.add(change.address, change.reserved)
        key = (change.device, change.kind, change.origin.phase)
        largest = known.largest
        if key not in least or largest < least[key].per_bank:
            at = change.position + 1, change.time_ns
            least[key] = LeastFree(*key, largest * banks, largest, *at)
    return [one for one in least.values() if gaps[one.device, one.kind][0].fits]
