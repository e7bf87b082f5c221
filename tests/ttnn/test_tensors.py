"""Tensors are where the runtime's rules say, and its own counters follow them."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

from tests.ttnn.bench.answers import Block
from tests.ttnn.bench.boards import Sizes
from tests.ttnn.bench.machine import Machine

SIZES = Sizes(l1_small_size=32_768, trace_region_size=1 << 20)
TENSOR = "ttnn.zeros((1024, 1024), ttnn.bfloat16, ttnn.TILE_LAYOUT, device"
TENSOR_BYTES = 2 * 1024 * 1024


def counted(region: Path) -> dict[str, int]:
    """The totals that the runtime publishes, as they lie in layout version 3."""
    values = struct.unpack_from("<5Q", region.read_bytes(), 48)
    return dict(zip(("dram", "l1", "l1_small", "trace", "cb"), values, strict=True))


def test_a_tensor_takes_the_same_pages_of_every_bank(machine: Callable[[str], Machine]) -> None:
    session = machine("p150").session(SIZES)

    session.run(f"dram = {TENSOR})")
    session.run(f"l1 = {TENSOR}, ttnn.L1_MEMORY_CONFIG)")
    seen = session.views()

    # 1,024 pages of 2,048 bytes: 128 for each of 8 DRAM banks from below, 10 for each of 110 L1 banks from above.
    assert {
        kind: seen["kinds"][kind]["total_bytes_allocated_per_bank"] for kind in ("dram", "l1")
    } == {
        "dram": 128 * 2_048,
        "l1": 10 * 2_048,
    }
    assert seen["kinds"]["l1"]["block_table"] == [
        Block(address=0, size=1_407_872, allocated=False),
        Block(address=1_407_872, size=20_480, allocated=True),
    ]
    assert [(buffer["buffer_type"], buffer["address"]) for buffer in seen["buffers"]] == [
        ("DRAM", 1_048_704),
        ("L1", 1_572_864 - 32_768 - 20_480),
    ]


def test_the_stock_counters_see_requests_and_circular_buffers_but_no_dataflow_buffers(
    machine: Callable[[str], Machine],
) -> None:
    there = machine("p150")
    session = there.session(SIZES)
    [region] = there.regions

    session.run(f"a = {TENSOR})")
    assert counted(region)["dram"] == TENSOR_BYTES

    # Three circular buffers of 4,096 bytes on each of 110 cores; the second time the program is found in the cache.
    for _ in range(2):
        session.run("done = ttnn.add(a, a)")
        assert counted(region)["cb"] == 110 * 3 * 4_096

    kinds = {buffer["kind"] for buffer in session.core_buffers("ttnn.matmul(a, a)")}
    session.run("done = ttnn.matmul(a, a)")
    assert kinds == {"dataflow_buffer"}
    assert counted(region)["cb"] == 110 * 3 * 4_096
