"""Why an allocation failed: exhausted or fragmented, and who holds the memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ttmem.analysis.holders import Holder, on_chip, on_one_chip
from ttmem.analysis.process_picture import FailedAllocation, Holding
from ttmem.events import Banks, MemoryKind, runtime_messages
from ttmem.events.device import DeviceDeclaration
from ttmem.events.runtime_messages import Verdict, verdict


@dataclass(frozen=True, slots=True)
class Explanation:
    """Figures are of one bank (of L1: of one core), because a bank is what is full."""

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
        """False: nothing says that memory was short. The runtime may have refused it for another reason."""
        said = runtime_messages.is_out_of_memory(self.failure.message)
        return said or self.verdict is not Verdict.UNKNOWN


def explain(failure: FailedAllocation, device: DeviceDeclaration | None) -> Explanation:
    """The runtime's own figures where it tells them; else what was counted."""
    return (_of_program if failure.what != "buffer" else _of_buffer)(failure, device)


def _of_buffer(failure: FailedAllocation, device: DeviceDeclaration | None) -> Explanation:
    said = runtime_messages.bank_figures(failure.message)
    counted = _counted(failure, device)
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


def _of_program(failure: FailedAllocation, device: DeviceDeclaration | None) -> Explanation:
    """Circular buffers grow from the bottom of L1, buffers from its top; the gap between is what a program has."""
    clash = runtime_messages.clash(failure.message)
    over = runtime_messages.too_large(failure.message)
    counted = _counted(failure, device)
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


def _counted(failure: FailedAllocation, device: DeviceDeclaration | None) -> FreeSpace:
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
