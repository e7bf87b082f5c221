"""Why an allocation failed: exhausted or fragmented, and who holds the memory."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from ttmem.events import Banks, MemoryKind, runtime_messages
from ttmem.events.device import DeviceDeclaration
from ttmem.events.runtime_messages import Verdict, verdict
from ttmem.probe.report import FailedAllocation, Holding, Origin


@dataclass(frozen=True, slots=True)
class Holder:
    """All buffers of one kind that the same code allocated."""

    kind: int
    origin: Origin
    count: int
    bytes: int
    chips: tuple[int, ...]
    requested: int | None = None  # None if unknown for one of them


def on_chip(holdings: Iterable[Holding], kind: int, chip: int) -> list[Holding]:
    """What one kind of memory of one chip holds."""
    return [one for one in holdings if one.kind == kind and chip in one.chips]


def on_one_chip(holdings: Iterable[Holding], kind: int, chip: int) -> list[Holder]:
    """The holders of one kind of memory of one chip, largest first."""
    return _grouped((one, 1) for one in on_chip(holdings, kind, chip))


def on_all_chips(holdings: Iterable[Holding]) -> list[Holder]:
    """The holders of everything, on all chips together, largest first."""
    return _grouped((one, len(one.chips)) for one in holdings)


def _grouped(counted: Iterable[tuple[Holding, int]]) -> list[Holder]:
    """Each holding with the number of chips on which it counts."""
    groups: dict[tuple[int, Origin], list[tuple[Holding, int]]] = {}
    for holding, chips in counted:
        groups.setdefault((holding.kind, holding.origin), []).append((holding, chips))
    holders = [
        Holder(
            kind,
            origin,
            len(members),
            sum(holding.held * chips for holding, chips in members),
            tuple(sorted({chip for holding, _ in members for chip in holding.chips})),
            _sum(
                None if holding.requested is None else holding.requested * chips
                for holding, chips in members
            ),
        )
        for (kind, origin), members in groups.items()
    ]
    return sorted(holders, key=_largest_first)


def _sum(figures: Iterable[int | None]) -> int | None:
    known = list(figures)
    return None if None in known else sum(one for one in known if one is not None)


def _largest_first(holder: Holder) -> tuple[int, str, str]:
    """Of equal size by call site, so that the same run always reads the same."""
    return -holder.bytes, holder.origin.site or "", holder.origin.op or ""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Bytes in one bank (L1: in one core), since it is a bank that is full."""

    failure: FailedAllocation
    verdict: Verdict
    asked: int | None  # of a buffer, in all banks
    needed: int | None
    at_least: bool  # `needed` is what it takes if it is spread over all banks; it may be more
    free: int | None
    largest: int | None
    size: int | None
    banks: int | None
    clash: runtime_messages.Clash | None
    in_the_way: Holding | None  # the buffer that a program's circular buffers reach into
    holders: tuple[Holder, ...]  # largest first
    # The fewest sites whose buffers must be free so that it fits, and other sets of equally many; None: unknown.
    to_free: tuple[tuple[Holder, ...], ...] | None = None
    wasted: int | None = None  # reserved but not requested, by all holders; None: unknown

    @property
    def no_room(self) -> bool:
        """False: nothing indicates that memory was short; the runtime may have refused it for another reason."""
        said = runtime_messages.is_out_of_memory(self.failure.message)
        return said or self.verdict is not Verdict.UNKNOWN

    @property
    def short_by(self) -> int | None:
        """What is missing in a bank, or in one piece of it; None: unknown."""
        limit = {
            Verdict.EXHAUSTED: self.largest if self.clash else self.free,
            Verdict.FRAGMENTED: self.largest,
            Verdict.TOO_LARGE: self.size,
        }.get(self.verdict)
        if self.needed is None or limit is None:
            return self.clash.end - self.clash.lowest_buffer if self.clash else None
        return self.needed - limit

    @property
    def lock_step(self) -> bool:
        """Whether it would have fitted if nothing were reserved that nobody asked for, a good part of all."""
        if self.verdict not in (Verdict.EXHAUSTED, Verdict.FRAGMENTED) or self.clash:
            return False
        if self.wasted is None or self.free is None or self.needed is None:
            return False
        if self.size is None or self.wasted < LARGE_WASTE * (self.size - self.free):
            return False  # whole pages and alignment take a few percent everywhere
        return self.free + self.wasted >= self.needed > self.free

    @property
    def region_size(self) -> int | None:
        """What each bank of memory whose size users choose would have had to be, at least; None elsewhere."""
        if self.failure.what != "buffer" or self.failure.kind not in USER_SIZED:
            return None
        if self.size is None or self.free is None or self.needed is None:
            return None
        return self.size - self.free + self.needed


LARGE_WASTE = 0.2  # of what is held
USER_SIZED = (MemoryKind.L1_SMALL, MemoryKind.TRACE)


def explain(failure: FailedAllocation) -> Explanation:
    """With the runtime's own figures where it states them, else with what was counted."""
    return _of_buffer(failure) if failure.what == "buffer" else _of_program(failure)


def _of_buffer(failure: FailedAllocation) -> Explanation:
    device = failure.device
    said = runtime_messages.bank_figures(failure.message)
    counted = _counted(failure)
    banks, size, base = device.banks(failure.kind) if device else Banks(None, None, None)
    needed = None
    if said:
        banks, needed, size = said.banks, said.needed, said.bank_size or size
    elif banks and failure.requested is not None:
        needed = -(-failure.requested // banks)
    free = said.free if said and said.free is not None else counted.free
    largest = said.largest if said and said.largest is not None else counted.largest
    holders = _holders(failure)
    # Sites are named only if what was counted is what the runtime's own allocator had.
    complete = counted.free is not None and free == counted.free and largest == counted.largest
    to_free = None
    if complete and needed is not None and base is not None and size is not None and banks:
        held = on_chip(failure.holdings, failure.kind, failure.chips[0])
        to_free = _named(holders, _sites_in_the_way(held, banks, base, base + size, needed))
    return Explanation(
        failure,
        verdict(needed, free, largest, size),
        said.asked if said else failure.requested,
        needed,
        said is None,
        free,
        largest,
        size,
        banks,
        None,
        None,
        holders,
        to_free,
        _wasted(holders, banks) if complete else None,
    )


def _of_program(failure: FailedAllocation) -> Explanation:
    """Circular buffers grow up from the bottom of L1, buffers down from its top; programs can use the gap."""
    device = failure.device
    clash = runtime_messages.clash(failure.message)
    over = runtime_messages.too_large(failure.message)
    counted = _counted(failure)
    banks, size, base = device.banks(MemoryKind.L1) if device else Banks(None, None, None)
    needed = largest = None
    if clash and base is not None:
        needed, largest = clash.end - base, clash.lowest_buffer - base
    elif over and base is not None:
        needed, size = over.end - base, over.limit - base
    in_the_way, to_free, holders = None, None, _holders(failure)
    if clash and failure.chips and failure.of_that_moment:
        held = on_chip(failure.holdings, MemoryKind.L1, failure.chips[0])
        in_the_way = next((one for one in held if one.address == clash.lowest_buffer), None)
        if in_the_way is not None:
            to_free = _named(holders, [{one.origin for one in held if one.address < clash.end}])
    return Explanation(
        failure,
        Verdict.TOO_LARGE if over else verdict(needed, counted.free, largest, size),
        None,
        needed,
        False,
        counted.free,
        largest,
        size,
        banks,
        clash,
        in_the_way,
        holders,
        to_free,
    )


def _named(
    holders: Sequence[Holder], sets: Iterable[Collection[Origin]]
) -> tuple[tuple[Holder, ...], ...]:
    found = (tuple(one for one in holders if one.origin in origins) for origins in sets)
    return tuple(one for one in found if one)


def _sites_in_the_way(
    held: Iterable[Holding], banks: int, base: int, end: int, needed: int
) -> list[frozenset[Origin]]:
    """The sets of fewest sites without whose buffers a bank has `needed` bytes in one piece; the smallest first.

    Any range of that length will do. Moved down until it meets the end of a buffer, or the bottom, a range meets no
    further buffer, so that only ranges that begin there have to be tried. Empty: the bank is smaller than that.
    """
    blocks = [(one.address, one.address + one.held // banks, one.origin) for one in held]
    by_start = deque(sorted(blocks, key=lambda block: block[0]))
    by_end = deque(sorted(blocks, key=lambda block: block[1]))
    sizes: Counter[Origin] = Counter()
    for begin, stop, origin in blocks:
        sizes[origin] += stop - begin
    inside: Counter[Origin] = Counter()  # blocks that the range meets
    best: set[frozenset[Origin]] = set()
    fewest = len(sizes) + 1
    for start in sorted({base, *(stop for _, stop, _ in blocks)}):
        if start + needed > end:
            break
        while by_start and by_start[0][0] < start + needed:
            inside[by_start.popleft()[2]] += 1
        while by_end and by_end[0][1] <= start:
            inside[by_end.popleft()[2]] -= 1
        inside = +inside
        if len(inside) < fewest:
            fewest, best = len(inside), set()
        if len(inside) == fewest:
            best.add(frozenset(inside))
    return sorted(best, key=lambda origins: (sum(sizes[one] for one in origins), str(origins)))


def _wasted(holders: Iterable[Holder], banks: int | None) -> int | None:
    """In a bank: all banks take the same block, also those in which a buffer has nothing."""
    wasted = _sum(None if one.requested is None else one.bytes - one.requested for one in holders)
    return None if wasted is None or not banks else max(0, wasted) // banks


def _counted(failure: FailedAllocation) -> FreeSpace:
    device = failure.device
    if device is None or not failure.of_that_moment:
        return FreeSpace(None, None)
    kind = failure.kind if failure.what == "buffer" else MemoryKind.L1
    return free_in_bank(device, kind, on_chip(failure.holdings, kind, device.logical_id))


def _holders(failure: FailedAllocation) -> tuple[Holder, ...]:
    if not failure.chips:
        return ()
    kind = failure.kind if failure.what == "buffer" else MemoryKind.L1
    return tuple(on_one_chip(failure.holdings, kind, failure.chips[0]))


@dataclass(frozen=True, slots=True)
class FreeSpace:
    """Bytes free in one bank; None where its size or base is unknown."""

    free: int | None
    largest: int | None


def free_in_bank(device: DeviceDeclaration, kind: int, holdings: Sequence[Holding]) -> FreeSpace:
    """Of a kind of memory that holds exactly these buffers. All banks are alike, because allocation is lock-step."""
    banks, size, base = device.banks(kind)
    if not banks or size is None:
        return FreeSpace(None, None)
    blocks = [(one.address, one.held // banks) for one in holdings]
    free = size - sum(length for _, length in blocks)
    if free < 0:  # it also holds buffers of another process, or some were missed
        return FreeSpace(None, None)
    return FreeSpace(free, None if base is None else largest_gap(blocks, base, base + size))


def largest_gap(blocks: Iterable[tuple[int, int]], start: int, end: int) -> int:
    """The longest range between `start` and `end` that no (address, length) covers."""
    largest, at = 0, start
    for address, length in sorted(blocks):
        largest = max(largest, min(address, end) - at)
        at = max(at, address + length)
    return max(largest, end - at, 0)
