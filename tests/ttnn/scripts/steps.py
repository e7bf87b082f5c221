"""What a script is made of. Steps cross the pipe to the child as JSON, so they hold plain values only."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from math import prod
from typing import Any, TypeAlias, TypedDict

from tests.ttnn.bench.answers import CoreBuffer, KindView
from tests.ttnn.bench.boards import Sizes

ANCHOR = "anchor"  # a small tensor that stays

Range: TypeAlias = tuple[int, int, int, int]  # x0, y0, x1, y1; both ends belong to it


@dataclass(frozen=True, slots=True)
class Allocate:
    """A new tensor under a name."""

    name: str
    tensor: TensorSpec


@dataclass(frozen=True, slots=True)
class Free:
    name: str


@dataclass(frozen=True, slots=True)
class Operate:
    """An op of ttnn on one tensor, once or twice; its output is a new tensor under a name."""

    op: str
    input: str
    operand: TensorSpec
    name: str
    output: TensorSpec

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.input,)


@dataclass(frozen=True, slots=True)
class Place:
    """A circular buffer on ranges that share no core; with the name of a sharded tensor it lies in there."""

    size: int
    ranges: tuple[Range, ...]
    tensor: str | None = None


@dataclass(frozen=True, slots=True)
class Launch:
    """A program of its own making, with circular buffers where the script wants them."""

    places: tuple[Place, ...]

    @property
    def needs(self) -> tuple[str, ...]:
        """A program is launched with a tensor, which need not have anything to do with it."""
        return (ANCHOR, *(place.tensor for place in self.places if place.tensor is not None))


@dataclass(frozen=True, slots=True)
class ClearCache:
    pass


Step: TypeAlias = Allocate | Free | Operate | Launch | ClearCache


@dataclass(frozen=True, slots=True)
class Script:
    """Steps on a freshly opened device. What is left at the end is freed when it is closed."""

    seed: int
    sizes: Sizes
    steps: tuple[Step, ...]


def as_plain(step: Step) -> dict[str, Any]:
    return {"step": type(step).__name__, **asdict(step)}


def from_plain(plain: dict[str, Any]) -> Step:
    """Where there were tuples, there are lists now."""
    facts = {name: value for name, value in plain.items() if name != "step"}
    for name in ("tensor", "operand", "output"):
        if name in facts:
            facts[name] = tensor_from_plain(plain[name])
    if "places" in facts:
        facts["places"] = tuple(Place(**place) for place in plain["places"])
    return _STEPS[plain["step"]](**facts)


_STEPS = {each.__name__: each for each in (Allocate, Free, Operate, Launch, ClearCache)}


# -- A tensor as a script describes it, and the bytes and pages that the runtime makes of it


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


# -- What both sides answer after a step, in the same words: equal, or the model is wrong


KINDS = ("dram", "l1", "l1_small", "trace")

_FAULT = re.compile(r"Out of Memory: .*? B\)|Statically allocated \w+ buffers .*\d( B)?$", re.M)
_PROGRAM = re.compile(r" in program \d+ ")


class State(TypedDict):
    """`circular` are the addresses of the circular buffers that were placed in this step; None if they are unknown."""

    address: int | None
    error: str | None
    circular: list[int] | None
    program_cache_entries: int
    kinds: dict[str, KindView]


class Answer(TypedDict):
    """Of the runtime; `wanted` is what the model's program is made of.

    `cb_is_fresh` says whether the runtime has published its circular buffers since the last change. It does so at
    most ten times a second, never when a program is destroyed in a burst, and never twice.
    """

    state: State
    wanted: list[CoreBuffer]
    cb_is_fresh: bool


def fault_text(error: Exception) -> str | None:
    """The sentence with the figures; the number of a program is its process's own affair. None: another error."""
    found = _FAULT.search(str(error))
    return None if found is None else _PROGRAM.sub(" in a program ", found[0])
