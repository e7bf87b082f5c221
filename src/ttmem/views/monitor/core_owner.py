"""What of one core belongs to the processes that the user chose (`--pid`)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from ttmem.snapshots import Device, Snapshot
from ttmem.views.monitor.address_ranges import Range, covered, union
from ttmem.views.monitor.chosen_names import chosen_names
from ttmem.views.monitor.core_details import Core, Unknown, block, core_sets, l1_buffers
from ttmem.views.monitor.core_pressure import banks_of

MARK = "*"


@dataclass(frozen=True, slots=True)
class Owned:
    """The addresses at which the chosen processes have buffers, or circular buffers of live programs."""

    who: str
    ranges: tuple[Range, ...]

    @property
    def size(self) -> int:
        """In bytes; each address once."""
        return covered(self.ranges)

    def mark(self, start: int, end: int) -> str:
        """Is something of theirs there?"""
        return MARK if any(low < end and start < high for low, high in self.ranges) else " "


def owned(snapshot: Snapshot, device: Device, core: Core, pids: Collection[int]) -> Owned | None:
    """None if nobody was chosen; Unknown if it is not told of all that they have."""
    if not pids:
        return None
    sets = [one for one in core_sets(snapshot, device) if core in one.cores]
    ranges = [region for one in sets if one.pid in pids for region in one.regions]
    for kind in ("L1", "L1_SMALL"):
        for one in l1_buffers(snapshot, device, kind):
            placed = block(one, banks_of(device))
            if one.pid in pids and placed is None:
                raise Unknown("some buffers came without address or reserved size")
            if one.pid in pids and placed is not None:
                ranges.append(placed)
    return Owned(chosen_names(pids), tuple(union(ranges)))
