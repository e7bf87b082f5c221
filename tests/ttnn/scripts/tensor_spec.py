"""A tensor as a script describes it, and the bytes and pages that the runtime makes of it."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

TILE = 32
# Bytes of a tile, and of an element where rows are stored as they are.
TILE_BYTES = {"bfloat16": 2048, "float32": 4096, "bfloat8_b": 1088, "uint16": 2048}
ELEMENT_BYTES = {"bfloat16": 2, "float32": 4, "uint16": 2}


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """`strategy` is interleaved, height, width or block; a sharded tensor is cut for a grid of (x, y) banks."""

    shape: tuple[int, ...]
    kind: str  # DRAM, L1, L1_SMALL or TRACE
    dtype: str = "bfloat16"
    tiled: bool = True
    strategy: str = "interleaved"
    grid: tuple[int, int] = (1, 1)

    @property
    def rows(self) -> int:
        """Rows of elements, outer dimensions one below the other; each of them starts a new tile."""
        outer, height = prod(self.shape[:-2]), self.shape[-2]
        return outer * (_up(height, TILE) if self.tiled else height)

    @property
    def columns(self) -> int:
        return _up(self.shape[-1], TILE) if self.tiled else self.shape[-1]

    @property
    def shard_shape(self) -> tuple[int, int]:
        """Rows and columns of elements of one shard."""
        x, y = self.grid
        down, across = {"height": (x * y, 1), "width": (1, x * y)}.get(self.strategy, (y, x))
        unit = TILE if self.tiled else 1
        return _up(-(-self.rows // down), unit), _up(-(-self.columns // across), unit)

    @property
    def page_size(self) -> int:
        """A tile; or a row, as long as its shard is wide."""
        if self.tiled:
            return TILE_BYTES[self.dtype]
        width = self.columns if self.strategy == "interleaved" else self.shard_shape[1]
        return width * ELEMENT_BYTES[self.dtype]

    @property
    def pages(self) -> tuple[int, int]:
        """Rows and columns of pages."""
        if self.tiled:
            return self.rows // TILE, self.columns // TILE
        width = self.columns if self.strategy == "interleaved" else self.shard_shape[1]
        return self.rows, -(-self.columns // width)

    @property
    def size(self) -> int:
        """The bytes that it asks for on each device."""
        return prod(self.pages) * self.page_size


def tensor_from_plain(plain: dict[str, Any]) -> TensorSpec:
    """From JSON, which has lists where there were tuples."""
    sides = {name: tuple(plain[name]) for name in ("shape", "grid")}
    return TensorSpec(**(plain | sides))


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
