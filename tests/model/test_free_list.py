"""The free list against a naive one, and the laws that any allocator keeps."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttmem.model.allocator import FreeList
from ttmem.model.errors import DoubleFree

BASE, SIZE, ALIGNMENT = 1088, 64 * 256, 64

# A size to allocate from either end, or which of the live blocks to free.
Step = tuple[str, int]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["up", "down"]), st.integers(1, SIZE // 3)),
        st.tuples(st.sampled_from(["up", "down"]), st.integers(1, 300)),
        st.tuples(st.just("free"), st.integers(0, 1000)),
    ),
    max_size=120,
)


class Naive:
    """A set of taken lines; the first or last run of free ones that is long enough is taken."""

    def __init__(self) -> None:
        self.lines = [False] * (SIZE // ALIGNMENT)

    def allocate(self, size: int, top_down: bool) -> int | None:
        wanted = -(-size // ALIGNMENT)
        starts = range(len(self.lines) - wanted + 1)
        for start in reversed(starts) if top_down else starts:
            if not any(self.lines[start : start + wanted]):
                self.lines[start : start + wanted] = [True] * wanted
                return BASE + start * ALIGNMENT
        return None

    def free(self, address: int, size: int) -> None:
        first = (address - BASE) // ALIGNMENT
        self.lines[first : first + size // ALIGNMENT] = [False] * (size // ALIGNMENT)

    @property
    def largest_free(self) -> int:
        runs = "".join("x" if line else "." for line in self.lines).split("x")
        return max(map(len, runs)) * ALIGNMENT


def tiles(blocks: FreeList) -> bool:
    """True if free and allocated blocks follow each other from end to end, without a gap."""
    at = blocks.base
    for address, size, _ in blocks.blocks():
        if address != at or address % ALIGNMENT:
            return False
        at += size
    return at == blocks.base + blocks.size


@given(STEPS)
def test_it_gives_the_addresses_of_a_naive_first_fit(steps: list[Step]) -> None:
    blocks, naive = FreeList(BASE, SIZE, ALIGNMENT), Naive()
    live: list[int] = []
    for what, number in steps:
        if what != "free":
            address = blocks.allocate(number, what == "down")
            assert address == naive.allocate(number, what == "down")
            live += [] if address is None else [address]
        elif live:
            address = live.pop(number % len(live))
            naive.free(address, blocks.free(address))
        assert tiles(blocks)
        assert blocks.allocated_bytes == sum(naive.lines) * ALIGNMENT
        assert blocks.free_bytes + blocks.allocated_bytes == SIZE
        assert blocks.largest_free_bytes == naive.largest_free
        assert blocks.lowest_occupied() == min(live, default=None)

    for address in live:
        blocks.free(address)
    assert blocks.blocks() == [(BASE, SIZE, False)]


def test_from_the_top_a_block_is_cut_from_the_end_of_the_highest_hole() -> None:
    blocks = FreeList(0, 1024, 64)

    assert [blocks.allocate(100, top_down=True) for _ in range(2)] == [896, 768]


def test_the_first_hole_is_taken_though_a_later_one_fits_better() -> None:
    blocks = FreeList(0, 1024, 64)
    for size in (256, 64, 64, 64):
        blocks.allocate(size)
    blocks.free(0)
    blocks.free(320)

    assert blocks.allocate(64) == 0


def test_it_fails_below_the_floor_and_takes_nothing() -> None:
    blocks = FreeList(0, 1024, 64)
    blocks.allocate(512, top_down=True)

    assert blocks.allocate(256, top_down=True, floor=320) is None
    assert blocks.allocated_bytes == 512


@pytest.mark.parametrize("address", [0, 64, 4096])
def test_what_is_not_allocated_cannot_be_freed(address: int) -> None:
    blocks = FreeList(0, 1024, 64)
    blocks.allocate(128)
    blocks.free(0)

    with pytest.raises(DoubleFree, match="not allocated, or was freed before"):
        blocks.free(address)
    assert blocks.blocks() == [(0, 1024, False)]


def test_nothing_fits_into_an_empty_range() -> None:
    blocks = FreeList(64, 0, 64)

    assert blocks.allocate(1) is None
    assert (blocks.free_bytes, blocks.largest_free_bytes, blocks.lowest_occupied()) == (0, 0, None)
    assert blocks.blocks() == [(64, 0, False)]


def test_its_blocks_are_the_whole_range_in_order() -> None:
    blocks = FreeList(64, 1024, 64)
    for size in (64, 128, 192):
        blocks.allocate(size)
    blocks.free(128)

    assert blocks.blocks() == [
        (64, 64, True),
        (128, 128, False),
        (256, 192, True),
        (448, 640, False),
    ]
