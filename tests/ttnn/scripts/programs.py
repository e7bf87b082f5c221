"""Random programs: circular buffers of odd sizes, on ranges of cores that overlap in every way."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from tests.ttnn.scripts.steps import Launch, Place, Range
from tests.ttnn.scripts.tensor_spec import TensorSpec
from ttmem.hw import DeviceSpec, Grid


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
