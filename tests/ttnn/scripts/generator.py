"""Random scripts: the same seed and board give the same script, everywhere."""

from __future__ import annotations

from random import Random

from tests.ttnn.bench.boards import T3K, BenchBoard, Sizes
from tests.ttnn.scripts.programs import random_launch
from tests.ttnn.scripts.steps import (
    ANCHOR,
    Allocate,
    ClearCache,
    Free,
    Launch,
    Operate,
    Script,
    Step,
)
from tests.ttnn.scripts.tensor_spec import TensorSpec
from tests.ttnn.scripts.tensors import is_operand, random_operand, random_tensor

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
