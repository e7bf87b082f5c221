"""Tensors in tiles of 32 x 32, interleaved over all banks or sharded over cores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Literal, TypeAlias

from ttmem.events import MemoryKind
from ttmem.model.dispatch import MeshDevice
from ttmem.model.errors import BadBuffer
from ttmem.model.layouts import INTERLEAVED, Sharded, Strategy
from ttmem.model.mesh import SimulatedBuffer, create_buffer

TILE = 32
BFLOAT16 = 2  # bytes per element

Memory: TypeAlias = Literal["dram", "l1", "l1_small"]
Shape: TypeAlias = tuple[int, ...]

_KINDS = {"dram": MemoryKind.DRAM, "l1": MemoryKind.L1, "l1_small": MemoryKind.L1_SMALL}


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """One tensor on every device of the mesh; it lives until `deallocate`."""

    mesh: MeshDevice
    shape: Shape
    memory: Memory
    element_bytes: int
    shard: Sharded | None
    buffer: SimulatedBuffer

    @property
    def tiles(self) -> tuple[int, int]:
        """(rows, columns) of tiles, all outer dimensions laid one below the other."""
        return tiles_of(self.shape)

    @property
    def page_size(self) -> int:
        """Bytes of a tile."""
        return self.buffer.page_size

    @property
    def spec(self) -> tuple[object, ...]:
        """The key for the program cache; it does not include the address."""
        return self.shape, self.memory, self.element_bytes, self.shard

    def deallocate(self) -> None:
        self.buffer.deallocate()


def from_shape(
    mesh: MeshDevice,
    shape: Sequence[int],
    *,
    memory: Memory = "dram",
    element_bytes: int = BFLOAT16,
    shard: Sharded | None = None,
    site: str | None = None,
) -> Tensor:
    kind = _KINDS.get(memory)
    if kind is None:
        raise BadBuffer(f"unknown memory {memory!r:.40}; use dram, l1 or l1_small")
    sides = tuple(shape)
    page = TILE * TILE * element_bytes
    buffer = create_buffer(
        mesh, prod(tiles_of(sides)) * page, page, kind, shard or INTERLEAVED, site=site
    )
    return Tensor(mesh, sides, memory, element_bytes, shard, buffer)


def tiles_of(shape: Shape) -> tuple[int, int]:
    """A partial row or column still takes a whole tile."""
    if not shape or any(type(side) is not int or side < 1 for side in shape):
        raise BadBuffer(f"a tensor has sides of 1 or more, not {shape!r:.60}")
    height = shape[-2] if len(shape) > 1 else 1
    return prod(shape[:-2]) * -(-height // TILE), -(-shape[-1] // TILE)


def over_grid(
    mesh: MeshDevice, shape: Shape, strategy: Strategy, element_bytes: int = BFLOAT16
) -> Sharded:
    """A layout with equal shards of such a tensor on every core."""
    return Sharded.over(strategy, tiles_of(shape), mesh.spec.grid, TILE * TILE * element_bytes)


class Temporaries:
    """Frees tensors at the end of a `with` block, even after an exception."""

    def __init__(self) -> None:
        self._kept: list[Tensor] = []

    def __call__(self, tensor: Tensor) -> Tensor:
        self._kept.append(tensor)
        return tensor

    def __enter__(self) -> Temporaries:
        return self

    def __exit__(self, *_: object) -> None:
        for tensor in self._kept:
            if tensor.buffer.is_allocated:
                tensor.deallocate()
