"""What each core holds, as far as the sources report it, and how full it is."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from ttmem.sizes import human
from ttmem.snapshots import Buffer, CoreSet, Device, MemoryUse, Snapshot
from ttmem.snapshots.rows import Core, Range
from ttmem.views.figures import Units
from ttmem.views.monitor.live_data import chosen_names


def union(ranges: Iterable[Range]) -> list[Range]:
    """In order, without overlaps; neighbours are joined."""
    out: list[Range] = []
    for start, end in sorted(ranges):
        if start >= end:
            continue
        if out and start <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], end))
        else:
            out.append((start, end))
    return out


def covered(ranges: Iterable[Range]) -> int:
    """Bytes that are in at least one of them."""
    return sum(end - start for start, end in union(ranges))


NOT_TOLD = "no source of this device reports what is on which core"
SUMS_ONLY = "the counters of stock ttnn are sums, without addresses"


class Unknown(Exception):
    """A figure is not known; the text says why."""


def core_sets(snapshot: Snapshot, device: Device) -> tuple[CoreSet, ...]:
    """Where circular buffers lie; Unknown if some are not reported."""
    if device.memory.cb.count is None:
        raise Unknown(SUMS_ONLY)
    if device.memory.cb.cached is None:
        raise Unknown("circular buffers came without cores or addresses")
    if snapshot.cores is None:
        raise Unknown(NOT_TOLD)
    if device.unique_id not in snapshot.cores:
        raise Unknown("the cores of this device have not been read yet")
    return snapshot.cores[device.unique_id]


def l1_buffers(snapshot: Snapshot, device: Device, kind: str = "L1") -> tuple[Buffer, ...]:
    """Of kind L1 or L1_SMALL; Unknown if they are not reported."""
    if device.memory.l1.count is None:
        raise Unknown(SUMS_ONLY)
    if snapshot.l1_buffers is None:
        raise Unknown("no source of this device reports the addresses of its L1 buffers")
    return tuple(
        one for one in snapshot.l1_buffers if one.device == device.unique_id and one.kind == kind
    )


def block(buffer: Buffer, banks: int) -> Range | None:
    """Its addresses in each bank; None if they are not reported."""
    if buffer.address is None or not buffer.reserved or banks < 1:
        return None
    return buffer.address, buffer.address + buffer.reserved // banks


_LARGEST_GRID = 32  # in each direction; none is larger


class Pressure(NamedTuple):
    """Bytes in use on each core, and what one core can allocate.

    Processes take turns on a core, each with the same addresses. What is in use counts an address
    once, as the map does; what is added up counts it once for each process, as `L1 used` does.
    """

    grid: tuple[int, int]
    capacity: int
    in_use: Mapping[Core, int]
    buffers: int  # L1 and L1_SMALL of all processes, added up: lock-step, so the same on all cores
    buffer_pids: frozenset[int | None]  # their owners, as far as they are known
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
    """Columns and rows; Unknown if no client declared them."""
    grid = device.grid
    if grid is None or len(grid) != 2 or not all(0 < side <= _LARGEST_GRID for side in grid):
        raise Unknown("its grid of cores is unknown: no client declared the device")
    return grid


def grid_cores(grid: tuple[int, int]) -> list[Core]:
    """Row by row."""
    return [(x, y) for y in range(grid[1]) for x in range(grid[0])]


def banks_of(device: Device) -> int:
    """The number of equal blocks that a buffer is divided into, one per core."""
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
        listed = _listed(snapshot, device, kind)
        pids |= {one.pid for one in listed}
        placed = _blocks(listed, use, banks)
        blocks += placed or ()
        unplaced += each if placed is None else 0
    in_use = _in_use(grid, sets, blocks, unplaced)
    return Pressure(grid, device.l1_capacity // banks, in_use, added, frozenset(pids), sets)


def small_in_use(snapshot: Snapshot, device: Device, banks: int) -> int | None:
    """Bytes of L1_SMALL on each core, each address once; None: unknown."""
    use = device.memory.l1_small
    if use.reserved is None or banks < 1:
        return None
    placed = _blocks(_listed(snapshot, device, "L1_SMALL"), use, banks)
    return use.reserved // banks if placed is None else covered(placed)


def _in_use(
    grid: tuple[int, int], sets: tuple[CoreSet, ...], blocks: list[Range], unplaced: int
) -> dict[Core, int]:
    """Cores with the same sets use the same bytes, which are summed once."""
    known: dict[tuple[int, ...], int] = {}
    out: dict[Core, int] = {}
    for core in grid_cores(grid):
        here = tuple(at for at, one in enumerate(sets) if core in one.cores)
        if here not in known:
            regions = (region for at in here for region in sets[at].regions)
            known[here] = unplaced + covered([*blocks, *regions])
        out[core] = known[here]
    return out


def _listed(snapshot: Snapshot, device: Device, kind: str) -> tuple[Buffer, ...]:
    try:
        return l1_buffers(snapshot, device, kind)
    except Unknown:
        return ()


def _blocks(listed: Sequence[Buffer], use: MemoryUse, banks: int) -> list[Range] | None:
    """Where buffers lie in each bank; None unless all are reported."""
    if sum(one.reserved or 0 for one in listed) != use.reserved:
        return None
    placed = [block(one, banks) for one in listed]
    return None if None in placed else [one for one in placed if one is not None]


def _per_bank(kind: str, use: MemoryUse, banks: int) -> int:
    if use.reserved is None:
        raise Unknown(f"the client does not say what its {kind} buffers reserve in each bank")
    return use.reserved // banks


MARK = "*"


class Owned(NamedTuple):
    """The addresses at which the chosen processes have buffers, or circular buffers of live programs."""

    who: str
    ranges: tuple[Range, ...]

    @property
    def size(self) -> int:
        return covered(self.ranges)

    def mark(self, start: int, end: int) -> str:
        """Whether they have anything in this range."""
        return MARK if any(low < end and start < high for low, high in self.ranges) else " "


def owned(snapshot: Snapshot, device: Device, core: Core, pids: Collection[int]) -> Owned | None:
    """None if no process was chosen; Unknown if some of their memory is not reported."""
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


_KIB = 1024


def core_size(units: Units, count: int) -> str:
    """'1368.9 KiB', or what the user chose."""
    if units is not Units.BINARY:
        return units.text(count)
    return human(count) if count < _KIB else f"{count / _KIB:.1f} KiB"
