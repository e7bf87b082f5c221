"""Rectangles of cores, written, compared and merged as in the runtime."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple

from ttmem.errors import BadInput
from ttmem.hw import Grid
from ttmem.model.errors import OutsideGrid

Core = tuple[int, int]


class CoreType(IntEnum):
    """The programmable core types, in the order in which the runtime walks them."""

    TENSIX = 0
    ACTIVE_ETH = 1
    IDLE_ETH = 2


class CoreRange(NamedTuple):
    """Both ends are inclusive."""

    x0: int
    y0: int
    x1: int
    y1: int

    @property
    def num_cores(self) -> int:
        return (self.x1 - self.x0 + 1) * (self.y1 - self.y0 + 1)

    def cores(self) -> Iterator[Core]:
        for y in range(self.y0, self.y1 + 1):
            for x in range(self.x0, self.x1 + 1):
                yield x, y

    def intersects(self, other: CoreRange) -> bool:
        return (
            self.x0 <= other.x1
            and other.x0 <= self.x1
            and self.y0 <= other.y1
            and other.y0 <= self.y1
        )

    def __str__(self) -> str:
        return f"[{self.x0}-{self.y0} - {self.x1}-{self.y1}]"


CoreRangeSet = tuple[CoreRange, ...]


def whole_grid(grid: Grid) -> CoreRangeSet:
    return (CoreRange(0, 0, grid.x - 1, grid.y - 1),)


# The programs of a workload use the same few sets over and over.
@lru_cache(maxsize=1024)
def cores_of(ranges: CoreRangeSet) -> frozenset[Core]:
    return frozenset(core for core_range in ranges for core in core_range.cores())


def num_cores(ranges: CoreRangeSet) -> int:
    """A core in two ranges counts once."""
    return ranges[0].num_cores if len(ranges) == 1 else len(cores_of(ranges))


def intersects(left: Iterable[CoreRange], right: CoreRangeSet) -> bool:
    return any(core_range.intersects(other) for core_range in left for other in right)


@lru_cache(maxsize=1024)
def merge(ranges: CoreRangeSet) -> CoreRangeSet:
    """The same cores in fewer ranges: runs within a row, merged with an equal run in the row above."""
    if len(ranges) <= 1:
        return ranges
    rows: dict[int, list[int]] = {}
    for x, y in cores_of(ranges):
        rows.setdefault(y, []).append(x)
    done: list[CoreRange] = []
    growing: dict[Core, CoreRange] = {}
    for y in sorted(rows):
        grown: dict[Core, CoreRange] = {}
        for x0, x1 in _runs(sorted(rows[y])):
            above = growing.get((x0, x1))
            joins = above is not None and above.y1 == y - 1
            top = growing.pop((x0, x1)).y0 if joins else y
            grown[x0, x1] = CoreRange(x0, top, x1, y)
        done += growing.values()
        growing = grown
    return tuple(sorted([*done, *growing.values()]))


def check_inside(ranges: CoreRangeSet, grid: Grid | None) -> None:
    """Without a grid, as for Ethernet cores, only the shape of the ranges is checked."""
    if not ranges:
        raise BadInput("no core range given; name at least one core")
    for core_range in ranges:
        if not (0 <= core_range.x0 <= core_range.x1 and 0 <= core_range.y0 <= core_range.y1):
            raise BadInput(
                f"Invalid core range {core_range}: give its lowest core, then its highest"
            )
        if grid is not None and (core_range.x1 >= grid.x or core_range.y1 >= grid.y):
            raise OutsideGrid(str(core_range), grid)


def _runs(xs: list[int]) -> Iterator[Core]:
    start = last = xs[0]
    for x in xs[1:]:
        if x != last + 1:
            yield start, last
            start = x
        last = x
    yield start, last
