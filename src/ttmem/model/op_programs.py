"""The programs of operations: a reader, a writer, often a compute kernel, and the buffers between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ttmem.hw import Grid
from ttmem.model.core_ranges import CoreRange, CoreRangeSet, CoreType
from ttmem.model.kernels import Kernel
from ttmem.model.mesh import MeshDevice
from ttmem.model.program import Program

UNIQUE_ARGS, COMMON_ARGS = 12, 4  # words
BYTES_PER_TILE = 8  # of unrolled code


class Text(NamedTuple):
    """Packed bytes; compute kernels need theirs on each of three processors."""

    reader: int
    writer: int
    compute: int = 0


TEXT = {
    "add": Text(900, 700, 1392),
    "gelu": Text(720, 700, 1840),
    "matmul": Text(1640, 1180, 3904),
    "softmax": Text(1210, 760, 2976),
    "layer_norm": Text(1340, 810, 3312),
    "embedding": Text(1120, 840),
    "conv2d": Text(2460, 1720, 4208),
    "scaled_dot_product_attention": Text(2210, 1450, 5120),
}


@dataclass(frozen=True, slots=True)
class Recipe:
    """`blocks` are the sizes of its circular buffers, in tiles; `alias` is the address of an L1 tensor."""

    op: str
    cores: CoreRangeSet
    tile_bytes: int
    blocks: tuple[int, ...]
    dataflow: bool = False
    alias: tuple[int, int] | None = None  # address, bytes on each core


def build(mesh: MeshDevice, recipe: Recipe) -> Program:
    """A new program, compiled when it is enqueued."""
    program = Program(mesh.spec)
    for kernel in _kernels(recipe):
        program.add_kernel(kernel)
    if recipe.alias is not None:
        address, size = recipe.alias
        program.add_circular_buffer(recipe.cores, size, address=address)
    for tiles in recipe.blocks:
        size = tiles * recipe.tile_bytes
        if recipe.dataflow:
            program.add_dataflow_buffer(recipe.cores, size)
        else:
            program.add_circular_buffer(recipe.cores, size)
    return program


def rows_for(grid: Grid, tiles: int) -> CoreRangeSet:
    """As many full rows of the grid as the work needs."""
    rows = min(grid.y, -(-tiles // grid.x))
    return (CoreRange(0, 0, grid.x - 1, rows - 1),)


def _kernels(recipe: Recipe) -> list[Kernel]:
    """Readers and writers are the same for all shapes; compute kernels are unrolled for their blocks."""
    text = TEXT[recipe.op]
    made = [
        _kernel(recipe, "reader", (text.reader,)),
        _kernel(recipe, "writer", (text.writer,)),
    ]
    if text.compute:
        size = text.compute + BYTES_PER_TILE * sum(recipe.blocks)
        made.append(_kernel(recipe, "compute", (size,) * 3))
    return made


def _kernel(recipe: Recipe, part: str, packed: tuple[int, ...]) -> Kernel:
    name = f"{part}_{recipe.op}"
    return Kernel(name, CoreType.TENSIX, recipe.cores, packed, UNIQUE_ARGS, COMMON_ARGS)
