"""Why an allocation failed: exhausted or fragmented, and who holds the memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ttmem.events import Banks, MemoryKind, runtime_messages
from ttmem.events.amounts import USER_SIZED
from ttmem.events.runtime_messages import Verdict, verdict
from ttmem.probe.report import FailedAllocation, Holding, Origin


@dataclass(frozen=True, slots=True)
class SiteTotal:
    """All buffers of one kind that the same code allocated."""

    kind: int
    origin: Origin
    count: int
    bytes: int
    chips: tuple[int, ...]
    requested: int | None = None  # None if unknown for any of them


def on_chip(holdings: Iterable[Holding], kind: int, chip: int) -> list[Holding]:
    """What is allocated in one kind of memory of one chip."""
    return [holding for holding in holdings if holding.kind == kind and chip in holding.chips]


def on_all_chips(holdings: Iterable[Holding]) -> list[SiteTotal]:
    """The holders on all chips together, largest first."""
    return _grouped((holding, len(holding.chips)) for holding in holdings)


def _grouped(counted: Iterable[tuple[Holding, int]]) -> list[SiteTotal]:
    """Groups holdings, each with the number of chips on which it counts."""
    groups: dict[tuple[int, Origin], list[tuple[Holding, int]]] = {}
    for holding, chips in counted:
        groups.setdefault((holding.kind, holding.origin), []).append((holding, chips))
    holders = [
        SiteTotal(
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
    return None if None in known else sum(value for value in known if value is not None)


def _largest_first(holder: SiteTotal) -> tuple[int, str, str]:
    """Equal sizes are ordered by call site, so that the same run always gives the same output."""
    return -holder.bytes, holder.origin.site or "", holder.origin.op or ""


@dataclass(frozen=True, slots=True)
class InTheWay:
    """Buffers of one call site that have to be freed."""

    site: SiteTotal
    addresses: tuple[int, ...]  # of these buffers, ascending
    any_of_them: bool = False  # each single buffer of the site would do


@dataclass(frozen=True, slots=True)
class Explanation:
    """Bytes in one bank (L1: on one core), since it is a bank that is full."""

    failure: FailedAllocation
    verdict: Verdict
    asked: int | None  # of a buffer, in all banks
    needed: int | None
    at_least: bool  # `needed` assumes that it is spread over all banks; it may be more
    free: int | None
    largest: int | None
    size: int | None
    banks: int | None
    clash: runtime_messages.Clash | None
    in_the_way: Holding | None  # the buffer that a program's circular buffers overlap
    holders: tuple[SiteTotal, ...]  # largest first
    # Each is one way to make it fit, with buffers of the fewest sites; the best first. None: unknown.
    to_free: tuple[tuple[InTheWay, ...], ...] | None = None
    wasted: int | None = None  # reserved but not requested, by all holders; None: unknown

    @property
    def out_of_memory(self) -> bool:
        """False: nothing indicates that memory was short; the runtime may have refused for another reason."""
        said = runtime_messages.is_out_of_memory(self.failure.message)
        return said or self.verdict is not Verdict.UNKNOWN

    @property
    def short_by(self) -> int | None:
        """What is missing in a bank, or in its largest free block; None: unknown."""
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
        """Whether it would have fitted without the bytes that were reserved but not requested, if those are a good part
        of all.
        """
        if self.verdict not in (Verdict.EXHAUSTED, Verdict.FRAGMENTED) or self.clash:
            return False
        if self.wasted is None or self.free is None or self.needed is None:
            return False
        if self.size is None or self.wasted < LARGE_WASTE * (self.size - self.free):
            return False  # whole pages and alignment always take a few percent
        return self.free + self.wasted >= self.needed > self.free

    @property
    def region_size(self) -> int | None:
        """The least size of each bank for which it would have fitted, for memory whose size users choose; None for
        others.
        """
        if self.failure.what != "buffer" or self.failure.kind not in USER_SIZED:
            return None
        if self.size is None or self.free is None or self.needed is None:
            return None
        return self.size - self.free + self.needed


LARGE_WASTE = 0.2  # of what is allocated


def explain(failure: FailedAllocation) -> Explanation:
    """Uses the runtime's own figures if the message has them, else what was counted."""
    return _of_buffer(failure) if failure.what == "buffer" else _of_program(failure)


def _of_buffer(failure: FailedAllocation) -> Explanation:
    device = failure.device
    said = runtime_messages.bank_figures(failure.message)
    counted_free, counted_largest = _counted(failure)
    banks, size, base = device.banks(failure.kind) if device else Banks(None, None, None)
    needed = None
    if said:
        banks, needed, size = said.banks, said.needed, said.bank_size or size
    elif banks and failure.requested is not None:
        needed = -(-failure.requested // banks)
    free = said.free if said and said.free is not None else counted_free
    largest = said.largest if said and said.largest is not None else counted_largest
    holders = _holders(failure)
    # Sites are named only if the counts agree with the runtime's own allocator.
    complete = counted_free is not None and (free, largest) == (counted_free, counted_largest)
    to_free = None
    if complete and needed is not None and base is not None and size is not None and banks:
        held = on_chip(failure.holdings, failure.kind, failure.chips[0])
        sets = _smallest_sets(held, banks, base, base + size, needed)
        to_free = _ways_to_fit(failure, holders, sets)
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
    free, _ = _counted(failure)
    banks, size, base = device.banks(MemoryKind.L1) if device else Banks(None, None, None)
    needed = largest = None
    if clash and base is not None:
        needed, largest = clash.end - base, clash.lowest_buffer - base
    elif over and base is not None:
        needed, size = over.end - base, over.limit - base
    in_the_way, to_free, holders = None, None, _holders(failure)
    if clash and failure.chips and failure.of_that_moment:
        held = on_chip(failure.holdings, MemoryKind.L1, failure.chips[0])
        in_the_way = next(
            (holding for holding in held if holding.address == clash.lowest_buffer), None
        )
        if in_the_way is not None:
            overlapped = [holding for holding in held if holding.address < clash.end]
            to_free = _ways_to_fit(failure, holders, [(overlapped, False)])
    return Explanation(
        failure,
        Verdict.TOO_LARGE if over else verdict(needed, free, largest, size),
        None,
        needed,
        False,
        free,
        largest,
        size,
        banks,
        clash,
        in_the_way,
        holders,
        to_free,
    )


def _ways_to_fit(
    failure: FailedAllocation,
    holders: Sequence[SiteTotal],
    sets: Iterable[tuple[Sequence[Holding], bool]],
) -> tuple[tuple[InTheWay, ...], ...]:
    """Buffers that the refused op itself allocated come last: they may be its operands."""
    ways = []
    for held, any_of_them in sets:
        addresses: dict[Origin, list[int]] = {}
        for holding in held:
            addresses.setdefault(holding.origin, []).append(holding.address)
        way = tuple(
            InTheWay(holder, tuple(sorted(addresses[holder.origin])), any_of_them)
            for holder in holders
            if holder.origin in addresses
        )
        if way:
            ways.append(way)
    return tuple(
        sorted(ways, key=lambda way: any(one.site.origin == failure.origin for one in way))
    )


def _smallest_sets(
    held: Sequence[Holding], banks: int, base: int, end: int, needed: int
) -> list[tuple[Sequence[Holding], bool]]:
    """The buffers of the fewest sites without which a bank has `needed` contiguous bytes: for each such set of sites
    its fewest buffers, and whether any single buffer of the site would do. The set with the fewest bytes first.

    Any range of that length will do. A range that is moved down until it meets the end of a buffer, or the bottom,
    overlaps no further buffer, so only ranges that start there are tried. Empty: the bank is smaller than that.
    """
    blocks = sorted(
        (holding.address, holding.address + holding.held // banks, at)
        for at, holding in enumerate(held)
    )
    by_end = deque(sorted(blocks, key=lambda block: block[1]))
    by_start = deque(blocks)
    inside: dict[
        int, int
    ] = {}  # bytes of the blocks that the range overlaps, by their place in `held`
    best: dict[frozenset[Origin], tuple[int, int, tuple[int, ...]]] = {}
    fewest = len(held) + 1
    for start in sorted({base, *(stop for _, stop, _ in blocks)}):
        if start + needed > end:
            break
        while by_start and by_start[0][0] < start + needed:
            begin, stop, at = by_start.popleft()
            inside[at] = stop - begin
        while by_end and by_end[0][1] <= start:
            inside.pop(by_end.popleft()[2], None)
        origins = frozenset(held[at].origin for at in inside)
        if len(origins) < fewest:
            fewest, best = len(origins), {}
        if len(origins) == fewest:
            found = (len(inside), sum(inside.values()), tuple(inside))
            best[origins] = min(best.get(origins, found), found)
    gaps = _gaps_without_each(blocks, base, end)
    enough = {origin: True for origins in best for origin in origins}
    for at, gap in gaps.items():
        if gap < needed:
            enough[held[at].origin] = False
    ordered = sorted(best.items(), key=lambda one: (one[1][1], str(one[0])))
    return [
        ([held[at] for at in places], count == 1 and all(enough[each] for each in origins))
        for origins, (count, _, places) in ordered
    ]


def _gaps_without_each(
    blocks: Sequence[tuple[int, int, int]], base: int, end: int
) -> dict[int, int]:
    """The free range in the place of each block (start, end, key), if that block alone were freed."""
    ends = (base, *(stop for _, stop, _ in blocks))
    starts = (*(start for start, _, _ in blocks[1:]), end)
    return {key: starts[at] - ends[at] for at, (_, _, key) in enumerate(blocks)}


def _wasted(holders: Iterable[SiteTotal], banks: int | None) -> int | None:
    """In a bank: all banks reserve the same block, even those in which a buffer has no data."""
    wasted = _sum(
        None if holder.requested is None else holder.bytes - holder.requested for holder in holders
    )
    return None if wasted is None or not banks else max(0, wasted) // banks


def _memory(failure: FailedAllocation) -> int:
    return failure.kind if failure.what == "buffer" else MemoryKind.L1


def _holders(failure: FailedAllocation) -> tuple[SiteTotal, ...]:
    if not failure.chips:
        return ()
    held = on_chip(failure.holdings, _memory(failure), failure.chips[0])
    return tuple(_grouped((holding, 1) for holding in held))


def _counted(failure: FailedAllocation) -> tuple[int | None, int | None]:
    """Bytes free in one bank, and its largest free block, by what was counted.

    All banks are alike, because allocation is lock-step.
    """
    device = failure.device
    if device is None or not failure.of_that_moment:
        return None, None
    banks, size, base = device.banks(_memory(failure))
    if not banks or size is None:
        return None, None
    held = on_chip(failure.holdings, _memory(failure), device.logical_id)
    blocks = [(holding.address, holding.held // banks) for holding in held]
    free = size - sum(length for _, length in blocks)
    if free < 0:  # it also contains buffers of another process, or some were missed
        return None, None
    return free, None if base is None else largest_gap(blocks, base, base + size)


def largest_gap(blocks: Iterable[tuple[int, int]], start: int, end: int) -> int:
    """The longest range between `start` and `end` that no (address, length) covers."""
    largest, at = 0, start
    for address, length in sorted(blocks):
        largest = max(largest, min(address, end) - at)
        at = max(at, address + length)
    return max(largest, end - at, 0)
