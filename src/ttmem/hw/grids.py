"""The compute grid, and so the number of L1 banks: it depends on who dispatches.

Dispatch cores hold no bank. Worker dispatch takes one row or one column of the Tensix grid; slow
dispatch takes nothing, and Ethernet dispatch runs on Ethernet cores.
"""

from __future__ import annotations

from enum import Enum
from reprlib import repr as short_repr
from typing import NamedTuple

from ttmem.errors import BadInput
from ttmem.hw.arch import Arch


class Dispatch(str, Enum):
    SLOW = "slow"
    ROW = "row"
    COL = "col"
    ETH = "eth"

    def __str__(self) -> str:
        return self.value

    @classmethod
    def parse(cls, name: str) -> Dispatch:
        try:
            return cls(name.strip().lower())
        except ValueError:
            known = ", ".join(mode.value for mode in cls)
            raise BadInput(f"unknown dispatch {short_repr(name)}; use one of: {known}") from None


class Grid(NamedTuple):
    x: int
    y: int

    @property
    def cores(self) -> int:
        return self.x * self.y


# Wormhole loses rows to harvesting, Blackhole columns. More than two harvested is no product.
_TENSIX_GRIDS = {
    Arch.WORMHOLE: (Grid(8, 10), Grid(8, 9), Grid(8, 8)),
    Arch.BLACKHOLE: (Grid(14, 10), Grid(13, 10), Grid(12, 10)),
}


def worker_dispatch(arch: Arch) -> Dispatch:
    """The axis that the runtime takes its dispatch cores from when nobody says otherwise."""
    return Dispatch.COL if arch is Arch.BLACKHOLE else Dispatch.ROW


def compute_grid(arch: Arch, tensix_harvested: int, dispatch: Dispatch) -> Grid:
    """Compute cores (x, y). On Blackhole, ROW is what remains with the fabric mux."""
    full = _tensix_grid(arch, tensix_harvested)
    if dispatch is Dispatch.ROW:
        return Grid(full.x, full.y - 1)
    if dispatch is Dispatch.COL:
        return Grid(full.x - 1, full.y)
    # The one exception: the runtime's core descriptor gives n150 8x8 here, though 8x9 are free.
    if dispatch is Dispatch.ETH and arch is Arch.WORMHOLE and tensix_harvested == 1:
        return Grid(8, 8)
    return full


def _tensix_grid(arch: Arch, tensix_harvested: int) -> Grid:
    grids = _TENSIX_GRIDS[arch]
    if not 0 <= tensix_harvested < len(grids):
        line = "columns" if arch is Arch.BLACKHOLE else "rows"
        raise BadInput(
            f"{tensix_harvested} harvested Tensix {line}: "
            f"no {arch} product has this; give 0, 1 or 2"
        )
    return grids[tensix_harvested]
