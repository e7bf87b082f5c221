"""Random tensors: of every kind, layout and sharding, most of them small, some too large for their memory."""

from __future__ import annotations

from random import Random

from tests.ttnn.scripts.tensor_spec import TILE, TILE_BYTES, TensorSpec
from ttmem.hw import DeviceSpec

STRATEGIES = ("height", "width", "block")
OPERAND_SIDES = (64, 128, 256, 512)


def random_tensor(random: Random, spec: DeviceSpec) -> TensorSpec:
    kinds = ["DRAM"] * 4 + ["L1"] * 8
    kinds += ["L1_SMALL"] * 2 if spec.l1_small_bank_size else []
    kinds += ["TRACE"] if spec.trace_bank_size else []
    kind = random.choice(kinds)
    if kind == "L1_SMALL":
        return _sharded(random, spec, kind, (1, 3))
    if kind == "TRACE":
        return TensorSpec(_shape(random, (1, 20)), kind)
    if kind == "L1" and random.random() < 0.1:
        return _filling(random, spec)
    if random.random() < (0.5 if kind == "L1" else 0.15):
        return _sharded(random, spec, kind, (1, 30))
    return _interleaved(random, kind)


def random_operand(random: Random) -> TensorSpec:
    """Of a few shapes, so that an op meets the same one again."""
    side = random.choice(OPERAND_SIDES)
    return TensorSpec((side, side), random.choice(("DRAM", "L1")))


def is_operand(tensor: TensorSpec) -> bool:
    height, width = tensor.shape[-2:]
    square = len(tensor.shape) == 2 and height == width and height in OPERAND_SIDES
    return square and tensor == TensorSpec(tensor.shape, tensor.kind)


def _filling(random: Random, spec: DeviceSpec) -> TensorSpec:
    """Nearly all of an empty L1: the programs that come next, or came before, have no room for their buffers."""
    pages = (spec.l1_bank_size - random.randint(0, 60_000)) // TILE_BYTES["bfloat16"]
    return TensorSpec((TILE * spec.l1_banks, TILE * pages), "L1")


def _interleaved(random: Random, kind: str) -> TensorSpec:
    """The largest ask for more than an L1 has, or for more than is left of a DRAM."""
    if random.random() < 0.08:
        tiles = random.choice((1_000, 6_000, 100_000)) if kind == "DRAM" else 400
        return TensorSpec((32 * tiles, 32 * random.randint(100, 400)), kind)
    if random.random() < 0.3:
        shape = (random.randint(1, 3), random.randint(1, 300), 2 * random.randint(1, 300))
        dtype = random.choice(("bfloat16", "float32", "uint16"))
        return TensorSpec(shape, kind, dtype, tiled=False)
    dtype = random.choice(("bfloat16", "float32", "bfloat8_b", "uint16"))
    return TensorSpec(_shape(random, (1, 40)), kind, dtype)


def _sharded(random: Random, spec: DeviceSpec, kind: str, tiles: tuple[int, int]) -> TensorSpec:
    """Over some of the banks; the last shard may be cut short, and some banks may stay without one."""
    if kind == "DRAM":
        strategy, grid = random.choice(STRATEGIES[:2]), (random.randint(1, spec.dram_banks), 1)
    else:
        strategy = random.choice(STRATEGIES)
        grid = (random.randint(1, spec.grid.x), random.randint(1, spec.grid.y))
    tiled = random.random() < 0.7
    rows, columns = (random.randint(*tiles) * 32 for _ in range(2))
    if not tiled:
        rows, columns = random.randint(1, rows), 8 * random.randint(1, columns // 8)
    dtype = random.choice(("bfloat16", "float32"))
    return TensorSpec((rows, columns), kind, dtype, tiled, strategy, grid)


def _shape(random: Random, tiles: tuple[int, int]) -> tuple[int, ...]:
    """Sides that need not be multiples of a tile."""
    outer = (random.randint(1, 3),) if random.random() < 0.3 else ()
    return (*outer, *(32 * random.randint(*tiles) - random.choice((0, 0, 7)) for _ in range(2)))
