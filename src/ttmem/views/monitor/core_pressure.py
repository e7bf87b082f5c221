"""How full the L1 of each core is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ttmem.snapshots import Device, MemoryUse, Snapshot
from ttmem.views.monitor.address_ranges import Range, covered
from ttmem.views.monitor.core_details import (
    Core,
    CoreSet,
    L1Buffer,
    Unknown,
    block,
    core_sets,
    l1_buffers,
)

_LARGEST_GRID = 32  # in each direction; none is larger


@dataclass(frozen=True, slots=True)
class Pressure:
    """Bytes in use on each core, and what one core can allocate.

    Processes take turns on a core, each with the same addresses. What is in use counts an address
    once, as the map does; what is added up counts it once for each process, as `L1 used` does.
    """

    grid: tuple[int, int]
    room: int
    in_use: Mapping[Core, int]
    buffers: int  # L1 and L1_SMALL of all processes, added up: lock-step, so the same on all cores
    buffer_pids: frozenset[int | None]  # whose they are, as far as it is told
    sets: tuple[CoreSet, ...]

    def used(self, core: Core) -> int:
        """At addresses of buffers, or of circular buffers that programs on this core have or will have."""
        return self.in_use[core]

    def added_up(self, core: Core) -> int:
        """The same, process by process."""
        return self.buffers + sum(one.cached for one in self._here(core))

    def processes(self, core: Core) -> int:
        """How many have something here."""
        return len(self.buffer_pids | {one.pid for one in self._here(core)})

    def _here(self, core: Core) -> list[CoreSet]:
        return [one for one in self.sets if core in one.cores]

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


def banks_of(device: Device) -> int:
    """Into so many equal blocks a buffer is cut, one for each core."""
    columns, rows = grid_of(device)
    return device.l1_map.banks if device.l1_map else columns * rows


def pressure(snapshot: Snapshot, device: Device) -> Pressure:
    """Unknown, with the reason, where one of the parts is."""
    grid, banks = grid_of(device), banks_of(device)
    if device.l1_capacity is None or banks < 1 or device.l1_capacity < banks:
        raise Unknown("what a core can allocate is unknown: no client declared the device")
    sets = core_sets(snapshot, device)
    blocks: list[Range] = []
    pids: set[int | None] = set()
    added = unplaced = 0
    for kind, use in (("L1", device.memory.l1), ("L1_SMALL", device.memory.l1_small)):
        each = _per_bank(kind, use, banks)
        added += each
        told = _told(snapshot, device, kind)
        pids |= {one.pid for one in told}
        placed = _blocks(told, use, banks)
        blocks += placed or ()
        unplaced += each if placed is None else 0
    in_use = _in_use(grid, sets, blocks, unplaced)
    return Pressure(grid, device.l1_capacity // banks, in_use, added, frozenset(pids), sets)


def small_in_use(snapshot: Snapshot, device: Device, banks: int) -> int | None:
    """Bytes of L1_SMALL on each core, each address once; None: unknown."""
    use = device.memory.l1_small
    if use.reserved is None or banks < 1:
        return None
    placed = _blocks(_told(snapshot, device, "L1_SMALL"), use, banks)
    return use.reserved // banks if placed is None else covered(placed)


def _in_use(
    grid: tuple[int, int], sets: tuple[CoreSet, ...], blocks: list[Range], unplaced: int
) -> dict[Core, int]:
    """Cores with the same sets have the same in use: it is added up once."""
    known: dict[tuple[int, ...], int] = {}
    out: dict[Core, int] = {}
    for core in grid_cores(grid):
        here = tuple(at for at, one in enumerate(sets) if core in one.cores)
        if here not in known:
            regions = (region for at in here for region in sets[at].regions)
            known[here] = unplaced + covered([*blocks, *regions])
        out[core] = known[here]
    return out


def _told(snapshot: Snapshot, device: Device, kind: str) -> tuple[L1Buffer, ...]:
    try:
        return l1_buffers(snapshot, device, kind)
    except Unknown:
        return ()


def _blocks(told: Sequence[L1Buffer], use: MemoryUse, banks: int) -> list[Range] | None:
    """Where buffers lie in each bank; None unless it is told of all of them."""
    if sum(one.reserved or 0 for one in told) != use.reserved:
        return None
    placed = [block(one, banks) for one in told]
    return None if None in placed else [one for one in placed if one is not None]


def _per_bank(kind: str, use: MemoryUse, banks: int) -> int:
    if use.reserved is None:
        raise Unknown(f"the client does not say what its {kind} buffers reserve in each bank")
    return use.reserved // banks
