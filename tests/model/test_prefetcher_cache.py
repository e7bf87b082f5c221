"""The prefetcher cache: first in, first out, in one piece."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttmem.errors import BadInput
from ttmem.hw import device_spec
from ttmem.model.dispatch import CacheEntry, PrefetcherCache, prefetcher_cache


def test_a_workload_is_cached_from_its_second_launch_on() -> None:
    cache = PrefetcherCache(1024, 64)

    answers = [cache.query(workload, 100) for workload in (7, 8, 7)]

    assert answers == [(False, 0), (False, 128), (True, 0)]
    assert (cache.hits, cache.misses) == (1, 2)


def test_it_wraps_when_the_tail_is_too_small_and_the_oldest_goes() -> None:
    cache = PrefetcherCache(1000, 100)
    for workload in (1, 2, 3):
        cache.query(workload, 300)

    answer = cache.query(4, 200)

    assert answer == (False, 0)
    assert cache.entries == (
        CacheEntry(2, 300, 300),
        CacheEntry(3, 600, 300),
        CacheEntry(4, 0, 200),
    )


def test_one_entry_may_fill_it_and_the_next_takes_its_place() -> None:
    cache = PrefetcherCache(1000, 100)
    cache.query(1, 1000)

    assert cache.query(2, 10) == (False, 0)
    assert cache.entries == (CacheEntry(2, 0, 100),)


@pytest.mark.parametrize("size", [0, 1001])
def test_what_cannot_be_kept_ruins_what_was_there(size: int) -> None:
    cache = PrefetcherCache(1000, 100)
    cache.query(1, 100)

    assert cache.query(2, size) is None
    assert cache.entries == ()


def test_after_a_reset_everything_is_read_again() -> None:
    cache = PrefetcherCache(1000, 100)
    cache.query(1, 100)
    cache.reset()

    assert cache.query(1, 100) == (False, 0)


def test_ethernet_dispatch_has_a_smaller_cache() -> None:
    sizes = [prefetcher_cache(device_spec(board)).size for board in ("p150", "n300")]

    assert sizes == [1024 * 1024, 67 * 1024]


def test_a_cache_without_a_block_is_refused() -> None:
    with pytest.raises(BadInput, match="no block"):
        PrefetcherCache(63, 64)


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(1, 2100)), max_size=80))
def test_entries_never_overlap_nor_split(queries: list[tuple[int, int]]) -> None:
    cache = PrefetcherCache(2048, 64)
    sizes: dict[int, int] = {}
    for workload, size in queries:
        size = sizes.setdefault(workload, size)
        answer = cache.query(workload, size)

        entries = sorted(cache.entries, key=lambda entry: entry.offset)
        assert all(a.offset + a.size <= b.offset for a, b in itertools.pairwise(entries))
        assert all(
            entry.offset + entry.size <= 2048 and entry.offset % 64 == 0 for entry in entries
        )
        if answer is not None:
            (mine,) = [entry for entry in entries if entry.workload == workload]
            assert (mine.offset, mine.size >= size) == (answer.offset, True)
