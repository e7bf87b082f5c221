"""Operations by their ttnn names. Each allocates its output, then runs a program from the program cache."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from ttmem.hw import Grid
from ttmem.model.core_ranges import CoreRange, CoreRangeSet, CoreType, whole_grid
from ttmem.model.dispatch import MeshDevice
from ttmem.model.errors import BadBuffer
from ttmem.model.kernels import SimulatedKernel
from ttmem.model.layouts import Sharded
from ttmem.model.mesh import MeshWorkload
from ttmem.model.program import SimulatedProgram
from ttmem.model.tensor import TILE, Memory, Shape, Tensor, from_shape, over_grid, tiles_of

# The programs of operations: a reader, a writer, often a compute kernel, and the buffers between them.


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


def build(mesh: MeshDevice, recipe: Recipe) -> SimulatedProgram:
    """A new program, compiled when it is enqueued."""
    program = SimulatedProgram(mesh.spec)
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


def _kernels(recipe: Recipe) -> list[SimulatedKernel]:
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


def _kernel(recipe: Recipe, part: str, packed: tuple[int, ...]) -> SimulatedKernel:
    name = f"{part}_{recipe.op}"
    return SimulatedKernel(name, CoreType.TENSIX, recipe.cores, packed, UNIQUE_ARGS, COMMON_ARGS)


MOST_TILES = 64  # of one circular buffer: 128 KiB of bfloat16
ROWS_PER_TILE = 16  # rows of an image that one tile of a halo table describes


def add(a: Tensor, b: Tensor, *, memory: Memory | None = None) -> Tensor:
    """Elementwise, on the whole grid, with two tiles of each operand and of the result at a time."""
    if a.shape != b.shape:
        raise BadBuffer(f"cannot add shapes {a.shape} and {b.shape}")
    return _run("add", (a, b), a.shape, (2, 2, 2), memory, shard=a.shard)


def gelu(a: Tensor, *, memory: Memory | None = None) -> Tensor:
    """Elementwise."""
    return _run("gelu", (a,), a.shape, (2, 2), memory, shard=a.shard)


def matmul(
    a: Tensor, b: Tensor, *, memory: Memory | None = None, dataflow_buffers: bool = False
) -> Tensor:
    """a x b, in blocks. A Metal 2.0 program uses dataflow buffers instead of circular buffers."""
    if a.shape[-1] != b.shape[-2]:
        raise BadBuffer(f"cannot multiply shapes {a.shape} and {b.shape}")
    shape = (*a.shape[:-1], b.shape[-1])
    (rows, inner), columns = a.tiles, b.tiles[1]
    depth = 2 * min(inner, 8)  # two blocks: one is read while the other is used
    high, wide = min(rows, 4), min(columns, 4)
    blocks = (depth * high, depth * wide, high * wide)
    return _run("matmul", (a, b), shape, blocks, memory, dataflow=dataflow_buffers, rows_only=True)


def softmax(a: Tensor, *, memory: Memory | None = None) -> Tensor:
    """Over the last dimension: a row of tiles at a time, with its exponentials and its scaler."""
    width = a.tiles[1]
    return _run("softmax", (a,), a.shape, (width, width, 1, 2), memory, rows_only=True)


def layer_norm(a: Tensor, *, memory: Memory | None = None) -> Tensor:
    """Over the last dimension: input, squares, weight and bias, mean and variance, output."""
    width = a.tiles[1]
    blocks = (width, min(width, 8), 4, 4, 2, width)
    return _run("layer_norm", (a,), a.shape, blocks, memory, rows_only=True)


def embedding(tokens: Tensor, table: Tensor, *, memory: Memory | None = None) -> Tensor:
    """Copies a row of the table for each token."""
    shape = (*tokens.shape, table.shape[-1])
    return _run("embedding", (tokens, table), shape, (1, 2), memory or "dram", rows_only=True)


def scaled_dot_product_attention(
    query: Tensor, keys: Tensor, values: Tensor, *, memory: Memory | None = None
) -> Tensor:
    """Chunks of keys and values stream past a chunk of queries."""
    head, chunk = max(1, keys.tiles[1]), min(8, keys.tiles[0])
    queries = min(query.tiles[0], 4) * head
    blocks = (queries, 2 * chunk * head, 2 * chunk * head, 2 * chunk, queries, 2)
    return _run("scaled_dot_product_attention", (query, keys, values), query.shape, blocks, memory)


def prepare_halo(mesh: MeshDevice, shape: Shape, *, site: str | None = None) -> Tensor:
    """Which rows each core fetches from its neighbours: a table in L1_SMALL that a conv2d keeps."""
    cores = mesh.spec.l1_banks
    rows = -(-tiles_of(shape)[0] // cores)
    table = (TILE * cores, TILE * -(-rows // ROWS_PER_TILE))
    shard = over_grid(mesh, table, "height")
    return from_shape(mesh, table, memory="l1_small", shard=shard, site=site)


def conv2d(image: Tensor, weights: Tensor, halo: Tensor) -> Tensor:
    """On the cores that hold the image, which serves as the circular buffer."""
    if image.shard is None:
        raise BadBuffer("conv2d needs a sharded image; shard it over the grid first")
    shape = (*image.shape[:-1], weights.shape[-1])
    depth = min(image.tiles[1], 8)
    blocks = (9 * depth, 2 * depth * min(weights.tiles[1], 4), 4)
    shard = over_grid(image.mesh, shape, image.shard.strategy)
    inputs = (image, weights, halo)
    return _run("conv2d", inputs, shape, blocks, image.memory, shard=shard, alias=image)


def _run(
    op: str,
    inputs: tuple[Tensor, ...],
    shape: Shape,
    blocks: tuple[int, ...],
    memory: Memory | None,
    *,
    shard: Sharded | None = None,
    dataflow: bool = False,
    rows_only: bool = False,
    alias: Tensor | None = None,
) -> Tensor:
    """The output is allocated before the program is looked up, as in ttnn. If that fails, nothing is left allocated."""
    first = inputs[0]
    mesh = first.mesh
    where = first.memory if memory is None else memory
    output = from_shape(
        mesh, shape, memory=where, shard=shard if where != "dram" else None, site=op
    )
    key = (op, dataflow, *(tensor.spec for tensor in inputs), output.spec)

    def recipe() -> Recipe:
        cores = _cores(mesh, output, rows_only)
        sizes = tuple(min(tiles, MOST_TILES) for tiles in blocks)
        plain = Recipe(op, cores, output.page_size, sizes, dataflow)
        return plain if alias is None else replace(plain, alias=_place(alias))

    try:
        workload = mesh.program_cache.run(key, lambda: build(mesh, recipe()))
    except BaseException:
        output.deallocate()
        raise
    if alias is not None:
        _follow(workload, alias)
    return output


def _cores(mesh: MeshDevice, output: Tensor, rows_only: bool) -> CoreRangeSet:
    rows, columns = output.tiles
    return rows_for(mesh.spec.grid, rows * columns) if rows_only else whole_grid(mesh.spec.grid)


def _place(tensor: Tensor) -> tuple[int, int]:
    return tensor.buffer.address, tensor.buffer.block


def _follow(workload: MeshWorkload, tensor: Tensor) -> None:
    """The tensor of a cached program may have moved since the last run."""
    workload.program.update_dynamic_circular_buffer_address(0, tensor.buffer.address)
