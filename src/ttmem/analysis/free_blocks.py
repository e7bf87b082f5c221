"""What is free in a bank. A buffer takes the same block of every bank (lock-step), so one bank tells all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ttmem.analysis.process_picture import Holding
from ttmem.events.device import DeviceDeclaration


@dataclass(frozen=True, slots=True)
class Room:
    """Bytes of one bank; None where the size or the place of the bank is unknown."""

    free: int | None
    largest: int | None


def room_in_bank(device: DeviceDeclaration, kind: int, holdings: Sequence[Holding]) -> Room:
    """Of one kind of memory, which holds exactly these buffers."""
    banks, size, base = device.banks(kind)
    if not banks or size is None:
        return Room(None, None)
    blocks = [(one.address, one.held // banks) for one in holdings]
    free = size - sum(length for _, length in blocks)
    if free < 0:
        return Room(None, None)  # buffers of another process are in it, or some were missed
    return Room(free, None if base is None else largest_gap(blocks, base, base + size))


def largest_gap(blocks: Iterable[tuple[int, int]], start: int, end: int) -> int:
    """The longest stretch between `start` and `end` that no (address, length) covers."""
    largest, at = 0, start
    for address, length in sorted(blocks):
        largest = max(largest, min(address, end) - at)
        at = max(at, address + length)
    return max(largest, end - at, 0)
