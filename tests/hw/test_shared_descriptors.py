"""Descriptors of real machines, where the folder with them is at hand."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ttmem.hw import board, read_cluster

REPO = Path(__file__).parents[2]
FOLDER = Path(
    os.environ.get("TTMEM_SHARED_DATA") or REPO.parent / "shared" / "data" / "cluster_descriptors"
)
FILES = sorted(FOLDER.glob("*.yaml"))
NO_FILES = pytest.param(
    None,
    marks=pytest.mark.skip(reason=f"no descriptors in {FOLDER}; set TTMEM_SHARED_DATA to a folder"),
    id="none",
)


@pytest.mark.parametrize("path", FILES or [NO_FILES], ids=lambda path: path.name)
def test_a_real_machine_is_read_and_has_capacities(path: Path) -> None:
    cluster = read_cluster(path)
    known = board(cluster.board_name or "")
    for chip in cluster.chips:
        spec = cluster.spec(chip)
        assert chip.arch is known.arch
        assert (chip.gateway is not None) == chip.is_remote
        assert (chip.position is not None) == known.name.endswith("galaxy")
        assert 0 < spec.l1_capacity < spec.l1_total
        assert 0 < spec.dram_capacity < spec.dram_total


@pytest.mark.parametrize("path", FILES or [NO_FILES], ids=lambda path: path.name)
def test_every_chip_of_a_real_galaxy_has_a_place_of_its_own(path: Path) -> None:
    positions = [chip.position for chip in read_cluster(path).chips if chip.position]

    expected = [f"T{tray}:N{chip}" for tray in range(1, 5) for chip in range(1, 9)]
    assert sorted(positions) in ([], expected)
