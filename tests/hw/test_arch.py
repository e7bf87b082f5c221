"""Architectures and compute grids."""

from __future__ import annotations

import pytest

from ttmem.errors import BadInput
from ttmem.hw import Arch, Dispatch, compute_grid


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("wormhole", Arch.WORMHOLE),
        ("Wormhole", Arch.WORMHOLE),
        ("wormhole_b0", Arch.WORMHOLE),
        ("WORMHOLE_B0", Arch.WORMHOLE),
        ("blackhole", Arch.BLACKHOLE),
        (" BH ", Arch.BLACKHOLE),
    ],
)
def test_an_architecture_is_known_by_all_its_spellings(written: str, meant: Arch) -> None:
    assert Arch.parse(written) is meant


def test_an_unknown_architecture_is_refused_with_the_known_ones() -> None:
    with pytest.raises(BadInput, match=r"'quasar'.*wormhole, blackhole"):
        Arch.parse("quasar")


def test_an_architecture_prints_as_its_name() -> None:
    assert f"{Arch.BLACKHOLE} {Arch.WORMHOLE!s}" == "blackhole wormhole"


def test_dram_is_aligned_to_64_on_blackhole_and_32_on_wormhole() -> None:
    alignments = [(arch.dram_alignment, arch.l1_alignment) for arch in Arch]
    assert alignments == [(32, 16), (64, 16)]


WH, BH = Arch.WORMHOLE, Arch.BLACKHOLE


@pytest.mark.parametrize(
    ("arch", "harvested", "slow", "row", "col", "eth"),
    [
        (WH, 0, (8, 10), (8, 9), (7, 10), (8, 10)),
        (WH, 1, (8, 9), (8, 8), (7, 9), (8, 8)),
        (WH, 2, (8, 8), (8, 7), (7, 8), (8, 8)),
        (BH, 0, (14, 10), (14, 9), (13, 10), (14, 10)),
        (BH, 1, (13, 10), (13, 9), (12, 10), (13, 10)),
        (BH, 2, (12, 10), (12, 9), (11, 10), (12, 10)),
    ],
)
def test_the_compute_grid_is_what_dispatch_and_harvesting_leave(
    arch: Arch,
    harvested: int,
    slow: tuple[int, int],
    row: tuple[int, int],
    col: tuple[int, int],
    eth: tuple[int, int],
) -> None:
    found = [compute_grid(arch, harvested, dispatch) for dispatch in Dispatch]
    assert found == [slow, row, col, eth]


def test_a_grid_counts_its_cores() -> None:
    assert compute_grid(BH, 2, Dispatch.COL).cores == 110


@pytest.mark.parametrize("harvested", [-1, 3])
@pytest.mark.parametrize("arch", Arch)
def test_harvesting_that_no_product_has_is_refused(arch: Arch, harvested: int) -> None:
    with pytest.raises(BadInput, match="give 0, 1 or 2"):
        compute_grid(arch, harvested, Dispatch.SLOW)


def test_a_dispatch_mode_is_read_from_text() -> None:
    assert [Dispatch.parse(text) for text in ("Slow", "ETH")] == [Dispatch.SLOW, Dispatch.ETH]


def test_an_unknown_dispatch_mode_is_refused_with_the_known_ones() -> None:
    with pytest.raises(BadInput, match=r"'worker'.*slow, row, col, eth"):
        Dispatch.parse("worker")
