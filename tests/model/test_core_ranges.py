"""Core ranges: counted, merged and refused as the runtime does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttmem.errors import BadInput
from ttmem.hw import Grid
from ttmem.model.core_ranges import (
    CoreRange,
    check_inside,
    cores_of,
    intersects,
    merge,
    num_cores,
    whole_grid,
)
from ttmem.model.errors import OutsideGrid

RANGES = st.builds(
    lambda x, y, w, h: CoreRange(x, y, x + w, y + h), *[st.integers(0, n) for n in (6, 6, 3, 3)]
)
SETS = st.lists(RANGES, min_size=1, max_size=6).map(tuple)


def test_both_ends_belong_to_a_range() -> None:
    assert set(CoreRange(1, 2, 2, 3).cores()) == {(1, 2), (2, 2), (1, 3), (2, 3)}


def test_a_core_that_two_ranges_name_is_counted_once() -> None:
    assert num_cores((CoreRange(0, 0, 1, 0), CoreRange(1, 0, 2, 0))) == 3


def test_a_range_prints_as_in_the_runtimes_messages() -> None:
    assert str(CoreRange(0, 0, 7, 6)) == "[0-0 - 7-6]"


def test_rows_of_equal_width_merge_into_one_rectangle() -> None:
    rows = (CoreRange(0, 1, 3, 1), CoreRange(0, 0, 3, 0), CoreRange(0, 2, 1, 2))

    assert merge(rows) == (CoreRange(0, 0, 3, 1), CoreRange(0, 2, 1, 2))


def test_a_range_outside_the_grid_is_refused_with_both() -> None:
    with pytest.raises(OutsideGrid, match=r"- 11-0\].*11 x 10"):
        check_inside((CoreRange(0, 0, 11, 0),), Grid(11, 10))


@pytest.mark.parametrize("ranges", [(), (CoreRange(1, 0, 0, 0),), (CoreRange(-1, 0, 0, 0),)])
def test_a_range_that_is_none_is_refused(ranges: tuple[CoreRange, ...]) -> None:
    with pytest.raises(BadInput, match=r"core range"):
        check_inside(ranges, None)


@given(SETS)
def test_merging_keeps_the_cores_and_leaves_no_overlap(ranges: tuple[CoreRange, ...]) -> None:
    merged = merge(ranges)

    assert cores_of(merged) == cores_of(ranges)
    if len(ranges) > 1:
        assert sum(core_range.num_cores for core_range in merged) == num_cores(ranges)


@given(RANGES, RANGES)
def test_ranges_intersect_if_they_share_a_core(left: CoreRange, right: CoreRange) -> None:
    assert intersects((left,), (right,)) == bool(cores_of((left,)) & cores_of((right,)))


def test_the_whole_grid_is_one_range() -> None:
    assert whole_grid(Grid(11, 10)) == (CoreRange(0, 0, 10, 9),)
