"""Random scripts: the same seed and board give the same script, everywhere."""

from __future__ import annotations

import os
from collections.abc import Mapping
from random import Random

from tests.ttnn.bench.boards import BOARDS, T3K, BenchBoard, Sizes
from tests.ttnn.scripts.steps import (
    ANCHOR,
    TILE,
    TILE_BYTES,
    Allocate,
    ClearCache,
    Free,
    Launch,
    Operate,
    Place,
    Range,
    Script,
    Step,
    TensorSpec,
)
from ttmem.hw import DeviceSpec, Grid

STEPS = (18, 30)
OPS = ("add", "softmax", "where", "shard")
# These fill a grid column by column. On a T3K they take 8 rows of cores, and the runtime's own check allows 7.
COLUMN_OPS = ("concat", "relu", "transpose", "typecast", "clone")


def script(board: BenchBoard, seed: int) -> Script:
    return _Writer(board, seed).write()


class _Writer:
    """Knows what it has asked for, not what was refused; a step on a tensor that is not there does nothing."""

    def __init__(self, board: BenchBoard, seed: int) -> None:
        self._random = Random(f"{board.name} {seed}")
        self._seed = seed
        self._sizes = Sizes(
            l1_small_size=self._random.choice((0, 8_192, 32_768, 65_536)),
            trace_region_size=self._random.choice((0, 100_000, 1 << 20, 50 << 20)),
            worker_l1_size=self._random.choice((0, 0, 0, 1_200_000)),
            num_command_queues=self._random.choice((1, 2)),
        )
        self._spec = board.spec(self._sizes)
        self._ops = OPS if board is T3K else (*OPS, *COLUMN_OPS)
        self._tensors: dict[str, TensorSpec] = {}
        self._launches: list[Launch] = []
        self._steps: list[Step] = [Allocate(ANCHOR, TensorSpec((32, 32), "DRAM"))]

    def write(self) -> Script:
        for _ in range(self._random.randint(*STEPS)):
            self._steps.append(self._next())
        return Script(self._seed, self._sizes, tuple(self._steps))

    def _next(self) -> Step:
        what = self._random.choices(
            (self._allocate, self._free, self._operate, self._launch, ClearCache),
            (45, 24, 16, 13, 2),
        )[0]
        return what()

    def _allocate(self) -> Step:
        return self._keep(Allocate(self._new_name(), random_tensor(self._random, self._spec)))

    def _free(self) -> Step:
        if not self._tensors:
            return self._allocate()
        name = self._random.choice(list(self._tensors))
        del self._tensors[name]
        return Free(name)

    def _operate(self) -> Step:
        operands = [name for name, tensor in self._tensors.items() if is_operand(tensor)]
        if not operands:
            return self._keep(Allocate(self._new_name(), random_operand(self._random)))
        name = self._random.choice(operands)
        op = self._random.choice(self._ops)
        operand = self._tensors[name]
        output = _output(op, operand, self._random.choice(("DRAM", "L1")))
        return self._keep(Operate(op, name, operand, self._new_name(), output))

    def _launch(self) -> Step:
        """Now and then one that was launched before, which the program cache has."""
        if self._launches and self._random.random() < 0.3:
            return self._random.choice(self._launches)
        new = random_launch(self._random, self._spec, self._tensors)
        if all(place.tensor is None for place in new.places):
            self._launches.append(new)
        return new

    def _new_name(self) -> str:
        return f"t{len(self._steps)}"

    def _keep(self, step: Allocate | Operate) -> Step:
        self._tensors[step.name] = step.tensor if isinstance(step, Allocate) else step.output
        return step


def _output(op: str, operand: TensorSpec, kind: str) -> TensorSpec:
    """Operands are square, so that a transpose has the same shape."""
    height, width = operand.shape
    if op == "concat":
        return TensorSpec((height, 2 * width), kind)
    if op == "typecast":
        return TensorSpec(operand.shape, kind, "bfloat8_b")
    if op == "shard":
        return TensorSpec(operand.shape, "L1", strategy="height", grid=(2, max(1, height // 128)))
    return TensorSpec(operand.shape, kind)


# -- Random programs: circular buffers of odd sizes, on ranges of cores that overlap in every way


def random_launch(random: Random, spec: DeviceSpec, tensors: Mapping[str, TensorSpec]) -> Launch:
    known = [_ranges(random, spec.grid) for _ in range(random.randint(1, 3))]
    places = []
    for _ in range(random.randint(1, 6)):
        # Equal ranges share an allocator, others do not: both must come up.
        ranges = random.choice(known) if random.random() < 0.7 else _ranges(random, spec.grid)
        places.append(Place(_size(random), ranges))
    sharded = [name for name, tensor in tensors.items() if _can_lie_under(tensor)]
    if sharded and random.random() < 0.4:
        name = random.choice(sharded)
        x, y = tensors[name].grid
        under = Place(tensors[name].page_size, ((0, 0, x - 1, y - 1),), name)
        places.insert(random.randint(0, len(places)), under)
    return Launch(tuple(places))


def _can_lie_under(tensor: TensorSpec) -> bool:
    return tensor.kind == "L1" and tensor.strategy != "interleaved" and tensor.tiled


def _size(random: Random) -> int:
    if random.random() < 0.05:
        return random.randint(1 << 20, 3 << 19)
    return random.choice((16, 1_000, 1_088, 2_048, 4_096)) * random.randint(1, 16)


def _ranges(random: Random, grid: Grid) -> tuple[Range, ...]:
    """One rectangle, or two that share no core: one in the left half, one in the right."""
    if random.random() < 0.6:
        return (_rectangle(random, 0, grid.x - 1, grid.y - 1),)
    middle = grid.x // 2
    halves = [
        _rectangle(random, 0, middle - 1, grid.y - 1),
        _rectangle(random, middle, grid.x - 1, grid.y - 1),
    ]
    random.shuffle(halves)
    return tuple(halves)


def _rectangle(random: Random, left: int, right: int, bottom: int) -> Range:
    x0, x1 = sorted(random.randint(left, right) for _ in range(2))
    y0, y1 = sorted(random.randint(0, bottom) for _ in range(2))
    return x0, y0, x1, y1


# -- Random tensors: of every kind, layout and sharding, most of them small, some too large for their memory


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
    """Nearly all of an empty L1: the programs that come next, or came before, have no space for their buffers."""
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


# -- How many scripts run: a sample, or as many as asked for by hand


VARIABLE = "TTMEM_TTNN_SCRIPTS"
SAMPLE = 5


def scripts_per_board() -> int:
    """Each board gets the same share."""
    return -(-int(os.environ.get(VARIABLE, SAMPLE)) // len(BOARDS))


def boards_with_three_processes() -> list[str]:
    """Three processes on each board take half a minute; a sample has one card and one mesh."""
    return list(BOARDS) if VARIABLE in os.environ else ["p150", "t3k"]
