"""Why an allocation failed: exhausted or fragmented, and who holds the memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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


def on_chip(holdings: Iterable[Holding], kind: int, chip: int) -> list[Holding]:
    """What one kind of memory of one chip holds."""
    return [one for one in holdings if one.kind == kind and chip in one.chips]


def on_one_chip(holdings: Iterable[Holding], kind: int, chip: int) -> list[Holder]:
    """The holders of one kind of memory of one chip, largest first."""
    return _grouped((one, one.held) for one in on_chip(holdings, kind, chip))


def on_all_chips(holdings: Iterable[Holding]) -> list[Holder]:
    """The holders of everything, on all chips together, largest first."""
    return _grouped((one, one.held * len(one.chips)) for one in holdings)


def _grouped(weighed: Iterable[tuple[Holding, int]]) -> list[Holder]:
    groups: dict[tuple[int, Origin], list[tuple[Holding, int]]] = {}
    for holding, size in weighed:
        groups.setdefault((holding.kind, holding.origin), []).append((holding, size))
    holders = [
        Holder(
            kind,
            origin,
            len(members),
            sum(size for _, size in members),
            tuple(sorted({chip for holding, _ in members for chip in holding.chips})),
        )
        for (kind, origin), members in groups.items()
    ]
    return sorted(holders, key=_largest_first)


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

    @property
    def no_room(self) -> bool:
        """False: nothing indicates that memory was short; the runtime may have refused it for another reason."""
        said = runtime_messages.is_out_of_memory(self.failure.message)
        return said or self.verdict is not Verdict.UNKNOWN


def explain(failure: FailedAllocation) -> Explanation:
    """With the runtime's own figures where it states them, else with what was counted."""
    return _of_buffer(failure) if failure.what == "buffer" else _of_program(failure)


def _of_buffer(failure: FailedAllocation) -> Explanation:
    device = failure.device
    said = runtime_messages.bank_figures(failure.message)
    counted = _counted(failure)
    banks, size, _ = device.banks(failure.kind) if device else Banks(None, None, None)
    needed = None
    if said:
        banks, needed, size = said.banks, said.needed, said.bank_size or size
    elif banks and failure.requested is not None:
        needed = -(-failure.requested // banks)
    free = said.free if said and said.free is not None else counted.free
    largest = said.largest if said and said.largest is not None else counted.largest
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
        _holders(failure),
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
    in_the_way = None
    if clash and failure.chips and failure.of_that_moment:
        held = on_chip(failure.holdings, MemoryKind.L1, failure.chips[0])
        in_the_way = next((one for one in held if one.address == clash.lowest_buffer), None)
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
        _holders(failure),
    )


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
