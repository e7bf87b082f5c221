"""How full the L1 of each core is."""

from __future__ import annotations

from dataclasses import dataclass

from ttmem.snapshots import Device, MemoryUse, Snapshot
from ttmem.views.monitor.core_details import Core, CoreSet, Unknown, core_sets

_LARGEST_GRID = 32  # in each direction; none is larger


@dataclass(frozen=True, slots=True)
class Pressure:
    """Bytes in use on each core, and what one core can allocate."""

    grid: tuple[int, int]
    everywhere: int  # L1 and L1_SMALL: lock-step, so the same on all cores
    sets: tuple[CoreSet, ...]
    room: int

    def used(self, core: Core) -> int:
        """L1, L1_SMALL, and the addresses that cached programs use for circular buffers."""
        return self.everywhere + self.circular(core)

    def circular(self, core: Core) -> int:
        """The part that is circular buffers."""
        return sum(one.cached for one in self.sets if core in one.cores)

    def fullest(self) -> Core:
        """The core with most in use, the first of several."""
        return max(grid_cores(self.grid), key=lambda core: (self.used(core), -core[1], -core[0]))


def grid_of(device: Device) -> tuple[int, int]:
    """Columns and rows; Unknown if nobody declared them."""
    grid = device.grid
    if grid is None or len(grid) != 2 or not all(0 < side <= _LARGEST_GRID for side in grid):
        raise Unknown("its grid of cores is unknown: no client declared the device")
    return grid


def grid_cores(grid: tuple[int, int]) -> list[Core]:
    """Row by row."""
    return [(x, y) for y in range(grid[1]) for x in range(grid[0])]


def pressure(snapshot: Snapshot, device: Device) -> Pressure:
    """Unknown, with the reason, where one of the parts is."""
    grid = grid_of(device)
    banks = device.l1_map.banks if device.l1_map else grid[0] * grid[1]
    if device.l1_capacity is None or banks < 1 or device.l1_capacity < banks:
        raise Unknown("what a core can allocate is unknown: no client declared the device")
    sets = core_sets(snapshot, device)
    kinds = (("L1", device.memory.l1), ("L1_SMALL", device.memory.l1_small))
    everywhere = sum(_per_bank(name, use, banks) for name, use in kinds)
    return Pressure(grid, everywhere, sets, device.l1_capacity // banks)


def _per_bank(name: str, use: MemoryUse, banks: int) -> int:
    if use.reserved is None:
        raise Unknown(f"the client does not say what its {name} buffers reserve in each bank")
    return use.reserved // banks
