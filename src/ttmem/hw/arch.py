"""The two architectures, how they align addresses, and their compute grids.

The number of L1 banks is that of the compute cores, which depends on dispatch: dispatch cores have no bank. Worker
dispatch takes a row or a column of the Tensix grid, slow dispatch takes nothing, and Ethernet dispatch runs on
Ethernet cores.
"""

from __future__ import annotations

from enum import Enum
from reprlib import repr as short_repr

from ttmem.errors import BadInput
from ttmem.fast_dataclasses import NamedTuple


class Arch(str, Enum):
    WORMHOLE = "wormhole"
    BLACKHOLE = "blackhole"

    def __str__(self) -> str:
        return self.value

    @classmethod
    def parse(cls, name: str) -> Arch:
        """Accepts the spellings of drivers, descriptors and people, such as `wormhole_b0` and `BH`."""
        spelling = name.strip().lower()
        if spelling in _SPELLINGS:
            return _SPELLINGS[spelling]
        known = ", ".join(arch.value for arch in cls)
        raise BadInput(f"unknown architecture {short_repr(name)}; use one of: {known}")

    @property
    def l1_alignment(self) -> int:
        return 16

    @property
    def dram_alignment(self) -> int:
        return 64 if self is Arch.BLACKHOLE else 32


_SPELLINGS = {
    "wormhole": Arch.WORMHOLE,
    "wormhole_b0": Arch.WORMHOLE,
    "wh": Arch.WORMHOLE,
    "blackhole": Arch.BLACKHOLE,
    "bh": Arch.BLACKHOLE,
}


def align_up(size: int, alignment: int) -> int:
    return -(-size // alignment) * alignment


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


# Harvesting removes rows on Wormhole and columns on Blackhole. No product has more than two harvested.
_TENSIX_GRIDS = {
    Arch.WORMHOLE: (Grid(8, 10), Grid(8, 9), Grid(8, 8)),
    Arch.BLACKHOLE: (Grid(14, 10), Grid(13, 10), Grid(12, 10)),
}


def worker_dispatch(arch: Arch) -> Dispatch:
    """The axis from which the runtime takes dispatch cores by default."""
    return Dispatch.COL if arch is Arch.BLACKHOLE else Dispatch.ROW


def compute_grid(arch: Arch, tensix_harvested: int, dispatch: Dispatch) -> Grid:
    """On Blackhole, ROW is what remains when the fabric mux is in use."""
    full = _tensix_grid(arch, tensix_harvested)
    if dispatch is Dispatch.ROW:
        return Grid(full.x, full.y - 1)
    if dispatch is Dispatch.COL:
        return Grid(full.x - 1, full.y)
    # An exception: the runtime's core descriptor gives an n150 8x8 here although 8x9 are free.
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
