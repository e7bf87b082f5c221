"""What a script is made of. Steps cross the pipe to the child as JSON, so they hold plain values only."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

from tests.ttnn.bench.boards import Sizes
from tests.ttnn.scripts.tensor_spec import TensorSpec, tensor_from_plain

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
        facts["places"] = tuple(Place(**one) for one in plain["places"])
    return _STEPS[plain["step"]](**facts)


_STEPS = {each.__name__: each for each in (Allocate, Free, Operate, Launch, ClearCache)}
