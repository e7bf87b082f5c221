"""How the pages of a buffer are spread over banks, and how many bytes each bank needs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias, get_args

from ttmem.hw.arch import align_up
from ttmem.model.errors import BadBuffer

Strategy: TypeAlias = Literal["height", "width", "block"]


@dataclass(frozen=True, slots=True)
class Interleaved:
    """Page after page, round robin over all banks."""


@dataclass(frozen=True, slots=True)
class Sharded:
    strategy: Strategy
    cores: int
    shard_size: int

    def __post_init__(self) -> None:
        if self.strategy not in get_args(Strategy):
            raise BadBuffer(f"unknown sharding {self.strategy!r}; use height, width or block")
        if self.cores < 1 or self.shard_size < 1:
            raise BadBuffer(
                f"a shard needs at least one core and one byte, "
                f"not {self.cores} cores with {self.shard_size} B"
            )

    @classmethod
    def over(
        cls, strategy: Strategy, pages: tuple[int, int], grid: tuple[int, int], page_size: int
    ) -> Sharded:
        """Splits (rows, columns) of pages over a grid of (x, y) cores. Cores without a page get no shard."""
        (rows, columns), (x, y) = pages, grid
        cores = x * y
        across, down = {"height": (1, cores), "width": (cores, 1)}.get(strategy, (x, y))
        if across < 1 or down < 1:
            raise BadBuffer(f"cannot shard over a grid of {x} x {y} cores")
        if rows < 1 or columns < 1:
            raise BadBuffer(f"cannot shard {rows} x {columns} pages")
        high, wide = -(-rows // down), -(-columns // across)
        used = -(-rows // high) * -(-columns // wide)
        return cls(strategy, used, high * wide * page_size)


Layout: TypeAlias = Interleaved | Sharded
INTERLEAVED = Interleaved()


@dataclass(frozen=True, slots=True)
class Sizing:
    """Lock step takes `block` bytes in every bank, although only `banks` of them hold pages."""

    aligned_page: int
    pages: int
    banks: int
    per_bank: int
    block: int
    reserved: int

    @property
    def aligned_size(self) -> int:
        """All pages on the device, including padding."""
        return self.aligned_page * self.pages


@lru_cache(maxsize=4096)  # a workload has few distinct shapes, and requests them all the time
def size_buffer(
    size: int,
    page_size: int,
    layout: Layout,
    *,
    banks: int,
    page_alignment: int,
    block_alignment: int,
) -> Sizing:
    """The bytes of a buffer in a memory of so many banks. BadBuffer if it cannot be split that way."""
    _check_pages(size, page_size)
    if isinstance(layout, Sharded):
        _check_shards(size, page_size, layout, banks)
        used, pages = layout.cores, layout.shard_size // page_size * layout.cores
    else:
        used, pages = banks, size // page_size
    aligned_page = align_up(page_size, page_alignment)
    per_bank = -(-pages // used) * aligned_page
    block = align_up(per_bank, block_alignment)
    return Sizing(aligned_page, pages, used, per_bank, block, block * banks)


def _check_pages(size: int, page_size: int) -> None:
    if size < 0 or page_size < 1:
        raise BadBuffer(f"a buffer of {size} B cannot have pages of {page_size} B")
    if size % page_size:
        raise BadBuffer(f"Buffer size {size} must be divisible by page size {page_size}")


def _check_shards(size: int, page_size: int, layout: Sharded, banks: int) -> None:
    if layout.cores > banks:
        raise BadBuffer(
            f"Expected number of shards {layout.cores} to be less than or equal to "
            f"total number of banks {banks}"
        )
    if layout.shard_size % page_size:
        raise BadBuffer(
            f"Shard size {layout.shard_size} must be divisible by page size {page_size}"
        )
    held = layout.cores * layout.shard_size
    if size > held:
        raise BadBuffer(f"a buffer of {size} B does not fit into shards of {held} B in all")
