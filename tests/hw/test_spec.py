from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttmem.errors import BadInput
from ttmem.hw import BOARDS, Arch, Board, Dispatch, device_spec

MIB = 1024 * 1024


def test_a_p150_is_as_the_runtime_itself_reports_it() -> None:
    spec = device_spec("p150", l1_small_size=32_768, trace_region_size=MIB)
    assert (spec.grid, spec.l1_banks, spec.dram_banks) == ((11, 10), 110, 8)
    assert (spec.l1_bank_size, spec.l1_small_bank_size) == (1_428_352, 32_768)
    assert (spec.cb_base, spec.l1_map.worker_l1_size) == (111_744, 1_461_120)
    assert (spec.l1_per_core, spec.l1_total) == (1_572_864, 173_015_040)


def test_the_trace_region_is_taken_from_every_dram_bank() -> None:
    spec = device_spec("p150", trace_region_size=MIB)
    assert (spec.trace_bank_size, spec.dram_bank_size) == (131_072, 4_277_010_304)
    assert spec.dram_capacity == 8 * 4_277_010_304


@pytest.mark.parametrize("dispatch", [None, Dispatch.ROW, Dispatch.ETH, "eth"])
def test_an_n150_has_64_banks_with_row_and_ethernet_dispatch(
    dispatch: Dispatch | str | None,
) -> None:
    spec = device_spec("n150", dispatch=dispatch)
    assert (spec.l1_banks, spec.cb_base) == (64, 105_824)


@pytest.mark.parametrize(
    ("board", "harvested", "dispatch", "banks", "total", "capacity"),
    [
        ("n150", None, None, 64, 95_944_704, 89_171_968),
        ("n150", None, "slow", 72, 107_937_792, 100_318_464),
        ("n300", None, None, 64, 95_944_704, 89_171_968),
        ("p150", None, None, 110, 173_015_040, 160_723_200),
        ("p150", None, "slow", 120, 188_743_680, 175_334_400),
        ("bh-galaxy", None, None, 120, 188_743_680, 175_334_400),
        ("bh-galaxy", None, "slow", 130, 204_472_320, 189_945_600),
        ("p150", 0, None, 130, 204_472_320, 189_945_600),
        ("p150", 0, "slow", 140, 220_200_960, 204_556_800),
    ],
)
def test_l1_totals_and_capacities_per_product(
    board: str, harvested: int | None, dispatch: str | None, banks: int, total: int, capacity: int
) -> None:
    spec = device_spec(board, tensix_harvested=harvested, dispatch=dispatch)
    assert (spec.l1_banks, spec.l1_total, spec.l1_capacity) == (banks, total, capacity)


@pytest.mark.parametrize("dispatch", list(Dispatch))
def test_no_way_to_open_a_chip_gives_more_than_all_of_its_cores_have(dispatch: Dispatch) -> None:
    spec = device_spec("p150", dispatch=dispatch, worker_l1_size=1_531_776)
    assert spec.l1_capacity < spec.l1_most == 120 * 1_572_864


@pytest.mark.parametrize(
    ("board", "version", "bank"),
    [
        ("p150", "0.71.2", 4_278_190_016),
        ("p150", "0.72.0", 4_277_141_376),
        ("n150", "0.70.1", 1_073_741_792),
        ("n150", "0.81.1", 1_072_693_184),
    ],
)
def test_dram_banks_are_those_of_the_version(board: str, version: str, bank: int) -> None:
    assert device_spec(board, version=version).dram_bank_size == bank


def test_an_n300_chip_has_91_5_mib_of_l1_and_85_04_mib_to_allocate() -> None:
    spec = device_spec("n300")
    assert (spec.l1_total / MIB, round(spec.l1_capacity / MIB, 2)) == (91.5, 85.04)


def test_the_171_6_mib_of_the_original_system_are_the_noc_grid_and_no_device_has_them() -> None:
    noc_grid = 10 * 12
    original = noc_grid * device_spec("n300").l1_per_core
    assert (original, original / MIB) == (179_896_320, 171.5625)
    totals = {
        device_spec(board, tensix_harvested=harvested, dispatch=dispatch).l1_total
        for board, harvested, dispatch in itertools.product(BOARDS, range(3), Dispatch)
    }
    assert original not in totals


@pytest.mark.parametrize(
    ("board", "banks", "view", "reserved"),
    [
        ("n150", 12, 1_073_741_824, 1_048_640),
        ("p100", 7, 4_278_190_080, 1_048_704),
        ("p150", 8, 4_278_190_080, 1_048_704),
    ],
)
def test_dram_has_a_reserved_bottom_in_every_bank(
    board: str, banks: int, view: int, reserved: int
) -> None:
    spec = device_spec(board)
    assert (spec.dram_banks, spec.dram_view_size) == (banks, view)
    assert spec.dram_bank_size == view - reserved
    assert spec.dram_capacity == banks * (view - reserved)


def test_the_kernel_ring_is_69_kib_per_compute_core() -> None:
    spec = device_spec("p150")
    assert (spec.ring_per_core, spec.ring_capacity) == (70_656, 110 * 70_656)


def test_a_smaller_worker_l1_size_moves_memory_from_l1_to_the_ring() -> None:
    spec = device_spec("p150", worker_l1_size=1_400_000)
    assert (spec.l1_capacity, spec.cb_base) == (110 * 1_400_000, 172_864)
    assert spec.ring_per_core == 131_776


@pytest.mark.parametrize(("board", "rounded"), [("n150", 1024 + 32), ("p150", 1024 + 64)])
def test_l1_small_is_rounded_up_to_the_dram_alignment(board: str, rounded: int) -> None:
    assert device_spec(board, l1_small_size=1025).l1_small_bank_size == rounded


def test_a_trace_region_is_shared_by_the_banks_and_rounded_up_to_8_kib_in_each() -> None:
    spec = device_spec("n150", trace_region_size=12 * 8192 + 1)
    assert spec.trace_bank_size == 2 * 8192


def test_an_older_runtime_has_its_own_map() -> None:
    spec = device_spec("p150", version="0.78-dev")
    assert (spec.cb_base, spec.note) == (111_616, None)


def test_an_unknown_runtime_is_noted_in_the_spec() -> None:
    assert "0.66" in (device_spec("p150", version="0.66").note or "")


def test_a_board_of_ones_own_can_be_described() -> None:
    spec = device_spec(Board("lab", Arch.WORMHOLE, 1, 0), dispatch=Dispatch.COL)
    assert (spec.board, spec.grid) == ("lab", (7, 10))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"tensix_harvested": 3}, "3 harvested Tensix columns"),
        ({"dram_harvested": 2}, "2 harvested DRAM channels.*give 0 or 1"),
        ({"l1_small_size": -1}, "l1_small_size must be 0 or more"),
        ({"l1_small_size": 1_461_121}, "more than the 1461120 bytes of a core"),
        ({"trace_region_size": -1}, "trace_region_size must be 0 or more"),
        ({"trace_region_size": 2**40}, "more than the DRAM of one p150 device"),
        ({"worker_l1_size": 2_000_000}, "1 to 1531776 bytes"),
    ],
)
def test_figures_that_no_device_can_have_are_refused(wrong: dict[str, int], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        device_spec("p150", **wrong)  # type: ignore[arg-type]  # mypy cannot see which key it is


@given(
    board=st.sampled_from(BOARDS),
    dispatch=st.sampled_from(Dispatch),
    l1_small=st.integers(0, MIB),
    trace=st.integers(0, 256 * MIB),
)
def test_what_can_be_allocated_and_what_is_reserved_make_up_the_whole_memory(
    board: Board, dispatch: Dispatch, l1_small: int, trace: int
) -> None:
    spec = device_spec(board, dispatch=dispatch, l1_small_size=l1_small, trace_region_size=trace)
    firmware = spec.l1_map.kernel_config_base * spec.l1_banks
    l1_small_capacity = spec.l1_banks * spec.l1_small_bank_size
    trace_capacity = spec.dram_banks * spec.trace_bank_size
    assert spec.l1_banks * spec.l1_bank_size + l1_small_capacity == spec.l1_capacity
    assert spec.l1_capacity + spec.ring_capacity + firmware == spec.l1_total
    usable = spec.dram_banks * (spec.dram_view_size - spec.dram_reserved)
    assert spec.dram_capacity + trace_capacity == usable
    assert l1_small_capacity >= l1_small
    assert trace_capacity >= trace
