"""Regions, block sizes and figures, with the test vectors of the facts sheet by their numbers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttmem.errors import TtmemError
from ttmem.events import MemoryKind
from ttmem.hw import BOARDS, device_spec
from ttmem.hw.arch import align_up
from ttmem.model.allocator import Allocator, MemoryView
from ttmem.model.errors import BadBuffer, OutOfMemory
from ttmem.model.layouts import INTERLEAVED, Layout, Sharded

MOCK_P150 = device_spec("p150", l1_small_size=32768, trace_region_size=1 << 20)
DRAM, L1, L1_SMALL, TRACE = (
    MemoryKind.DRAM,
    MemoryKind.L1,
    MemoryKind.L1_SMALL,
    MemoryKind.TRACE,
)


def test_t1_a_p150_has_the_banks_of_the_mock_run() -> None:
    view = Allocator(MOCK_P150).memory_view(L1)

    assert MOCK_P150.grid == (11, 10)
    assert (MOCK_P150.cb_base, MOCK_P150.l1_map.worker_l1_size) == (111_744, 1_461_120)
    assert view == MemoryView(110, 1_428_352, 0, 1_428_352, 1_428_352)
    assert Allocator(MOCK_P150).memory_view(DRAM).num_banks == 8


def test_t2_an_interleaved_l1_buffer_takes_its_block_in_every_bank() -> None:
    allocator = Allocator(MOCK_P150)
    sizing = allocator.size_buffer(L1, 1024 * 2048, 2048, INTERLEAVED)

    assert (sizing.per_bank, sizing.block, sizing.reserved) == (20_480, 20_480, 2_252_800)
    assert allocator.allocate(L1, sizing) == 1_519_616


def test_t3_the_same_in_dram_starts_above_what_is_reserved() -> None:
    allocator = Allocator(MOCK_P150)
    sizing = allocator.size_buffer(DRAM, 1024 * 2048, 2048, INTERLEAVED)

    assert (sizing.per_bank, sizing.reserved) == (262_144, 2_097_152)
    assert allocator.allocate(DRAM, sizing) == 1_048_704


def test_t6_a_small_page_is_padded_in_each_dram_bank() -> None:
    sizing = Allocator(MOCK_P150).size_buffer(DRAM, 32, 32, INTERLEAVED)

    assert (sizing.aligned_page, sizing.block, sizing.reserved) == (64, 64, 512)


def test_t7_shards_on_four_cores_take_their_block_on_all_of_them() -> None:
    sizing = Allocator(MOCK_P150).size_buffer(L1, 4 * 4096, 4096, Sharded("height", 4, 4096))

    assert (sizing.banks, sizing.block, sizing.reserved) == (4, 4096, 110 * 4096)


def test_t8_the_trace_region_is_shared_out_to_the_banks() -> None:
    allocator = Allocator(MOCK_P150)

    assert allocator.memory_view(TRACE).total_bytes_per_bank == 131_072
    assert allocator.memory_view(DRAM).total_bytes_per_bank == 4_277_010_304


@pytest.mark.parametrize("dispatch", ["eth", "row"])
def test_t15_an_n150_has_64_banks_with_either_dispatch(dispatch: str) -> None:
    allocator = Allocator(device_spec("n150", dispatch=dispatch))

    assert allocator.memory_view(L1).num_banks == 64
    assert allocator.free_list(L1).base == 105_824


@pytest.mark.parametrize("board", [board.name for board in BOARDS])
def test_regions_fill_the_bank_side_by_side(board: str) -> None:
    spec = device_spec(board, l1_small_size=1000, trace_region_size=12_345_678)
    allocator = Allocator(spec)
    l1, small = allocator.free_list(L1), allocator.free_list(L1_SMALL)
    dram, trace = allocator.free_list(DRAM), allocator.free_list(TRACE)

    assert l1.base == spec.cb_base
    assert (l1.base + l1.size, small.base + small.size) == (small.base, spec.l1_per_core)
    assert (dram.base, dram.base + dram.size) == (spec.dram_reserved, trace.base)
    assert trace.base + trace.size == spec.dram_view_size


def test_each_kind_grows_from_its_own_end_unless_told_otherwise() -> None:
    allocator = Allocator(MOCK_P150)
    one_shard = Sharded("block", 1, 64)

    def ends(kind: MemoryKind, layout: Layout) -> tuple[int, int]:
        sizing, blocks = allocator.size_buffer(kind, 64, 64, layout), allocator.free_list(kind)
        usual, other = kind in (DRAM, TRACE), kind not in (DRAM, TRACE)
        first, second = allocator.allocate(kind, sizing), allocator.allocate(kind, sizing, other)
        low, high = (first, second) if usual else (second, first)
        return low - blocks.base, blocks.base + blocks.size - high

    assert {ends(kind, one_shard) for kind in (DRAM, TRACE, L1, L1_SMALL)} == {(0, 64)}


def test_out_of_memory_says_what_the_runtime_says() -> None:
    allocator = Allocator(MOCK_P150)
    held = allocator.size_buffer(L1, 110 * 20_480, 2048, INTERLEAVED)
    allocator.allocate(L1, held)
    allocator.allocate(L1, held)
    allocator.free(L1, 1_519_616)
    wanted = allocator.size_buffer(L1, 110 * 1_400_832, 2048, INTERLEAVED)

    with pytest.raises(OutOfMemory) as caught:
        allocator.allocate(L1, wanted)
    assert str(caught.value) == (
        "Out of Memory: Not enough space to allocate 154091520 B L1 buffer across 110 banks, where "
        "each bank needs to store 1400832 B, but bank size is 1428352 B "
        "(allocated: 20480 B, free: 1407872 B, largest free block: 1387392 B)"
    )
    fault = caught.value
    assert (fault.kind, fault.size, fault.banks, fault.per_bank) == (
        "L1",
        154_091_520,
        110,
        1_400_832,
    )
    assert (fault.allocated, fault.free, fault.largest_free) == (20_480, 1_407_872, 1_387_392)
    assert allocator.memory_view(L1).total_bytes_allocated_per_bank == 20_480


@pytest.mark.parametrize(
    ("kind", "size", "page", "layout", "says"),
    [
        (L1_SMALL, 64, 64, INTERLEAVED, "only supports sharded"),
        (MemoryKind.SYSTEM_MEMORY, 64, 64, INTERLEAVED, "no memory of kind"),
        (DRAM, 100, 64, INTERLEAVED, "divisible by page size"),
        (DRAM, -64, 64, INTERLEAVED, "cannot have pages"),
        (DRAM, 64, 0, INTERLEAVED, "cannot have pages"),
        (L1, 64, 64, Sharded("width", 111, 64), "number of shards 111"),
        (L1, 64, 64, Sharded("width", 1, 100), "Shard size 100"),
        (L1, 256, 64, Sharded("height", 3, 64), "does not fit into shards of 192 B"),
    ],
)
def test_an_impossible_buffer_is_refused(
    kind: MemoryKind, size: int, page: int, layout: Layout, says: str
) -> None:
    with pytest.raises(BadBuffer, match=says):
        Allocator(MOCK_P150).size_buffer(kind, size, page, layout)


@pytest.mark.parametrize(
    ("strategy", "cores", "shard_size"), [("round", 1, 1), ("height", 0, 1), ("height", 1, 0)]
)
def test_impossible_shards_are_refused(strategy: str, cores: int, shard_size: int) -> None:
    with pytest.raises(TtmemError):
        Sharded(strategy, cores, shard_size)  # type: ignore[arg-type]


def test_a_tensor_is_cut_by_rows_by_columns_or_by_both() -> None:
    pages, grid = (64, 30), (8, 4)

    assert Sharded.over("height", pages, grid, 2048) == Sharded("height", 32, 2 * 30 * 2048)
    assert Sharded.over("width", pages, grid, 2048) == Sharded("width", 30, 64 * 1 * 2048)
    assert Sharded.over("block", pages, grid, 2048) == Sharded("block", 32, 16 * 4 * 2048)


@given(
    st.sampled_from([board.name for board in BOARDS]),
    st.sampled_from([DRAM, L1]),
    st.integers(1, 5000),
    st.integers(1, 5000),
)
def test_a_block_holds_its_share_of_the_pages_and_hardly_more(
    board: str, kind: MemoryKind, pages: int, page: int
) -> None:
    allocator = Allocator(device_spec(board))
    sizing, banks = (
        allocator.size_buffer(kind, pages * page, page, INTERLEAVED),
        allocator.num_banks(kind),
    )
    alignment = allocator.spec.dram_alignment

    assert sizing.block * banks == sizing.reserved >= sizing.aligned_size >= pages * page
    assert sizing.block % alignment == 0
    assert (sizing.per_bank // sizing.aligned_page - 1) * banks < pages
    assert sizing.block == align_up(sizing.per_bank, alignment)
