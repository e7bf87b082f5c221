"""Every board of the bench opens, and has what ttmem says it has, to the byte."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.ttnn.bench.boards import BOARDS, Sizes
from tests.ttnn.bench.machine import Machine
from ttmem.hw import device_spec
from ttmem.hw.descriptor import read_cluster

SIZES = Sizes(l1_small_size=32_768, trace_region_size=1 << 20)


@pytest.mark.parametrize("board", BOARDS)
def test_capacities_are_those_of_the_runtime(board: str, machine: Callable[[str], Machine]) -> None:
    there = machine(board)
    spec = there.board.spec(SIZES)

    session = there.session(SIZES)
    seen = session.views()

    info = seen["device_info"]
    assert session.run("device.get_num_devices()") == there.board.chips
    assert {
        kind: (view["num_banks"], view["total_bytes_per_bank"])
        for kind, view in seen["kinds"].items()
    } == {
        "dram": (spec.dram_banks, spec.dram_bank_size),
        "l1": (spec.l1_banks, spec.l1_bank_size),
        "l1_small": (spec.l1_banks, spec.l1_small_bank_size),
        "trace": (spec.dram_banks, spec.trace_bank_size),
    }
    assert (info["num_x_compute_cores"], info["num_y_compute_cores"]) == (spec.grid.x, spec.grid.y)
    assert (info["worker_l1_size"], info["total_l1_memory"]) == (spec.l1_per_core, spec.l1_total)
    assert (info["address_at_first_l1_cb_buffer"], info["cb_limit"]) == (
        spec.cb_base,
        spec.l1_map.worker_l1_size,
    )


@pytest.mark.parametrize("board", BOARDS)
def test_ttmem_reads_the_descriptor_as_the_runtime_does(
    board: str, machine: Callable[[str], Machine]
) -> None:
    there = machine(board)

    cluster = read_cluster(there.descriptor)

    assert [chip.unique_id for chip in cluster.chips] == there.unique_ids
    assert {device_spec(chip.board).grid for chip in cluster.chips} == {there.board.spec().grid}
