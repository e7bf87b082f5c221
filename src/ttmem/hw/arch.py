"""The two architectures that ttmem knows, and how both align addresses."""

from __future__ import annotations

from enum import Enum
from reprlib import repr as short_repr

from ttmem.errors import BadInput


class Arch(str, Enum):
    WORMHOLE = "wormhole"
    BLACKHOLE = "blackhole"

    def __str__(self) -> str:
        return self.value

    @classmethod
    def parse(cls, name: str) -> Arch:
        """The architecture as drivers, descriptors and people write it: `wormhole_b0`, `BH`."""
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
