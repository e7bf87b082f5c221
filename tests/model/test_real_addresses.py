"""The model against the real runtime: the same allocations, the same addresses.

The files hold what stock ttnn 0.81.1 answered on mock devices (l1_small_size 32,768, trace_region_size 1 MiB): random
bf16 tensors in tile layout, allocated and freed, and its own memory view before and after: number of banks, and per
bank total, allocated, free and largest free bytes.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.model.running import RecordingTracker
from ttmem.events import MemoryKind
from ttmem.model import MeshDevice, SimulatedBuffer, create_buffer, open_device

ANSWERS = Path(__file__).parent.parent / "data" / "ttnn_0.81.1"
TILE_BYTES = 2048


def view(mesh: MeshDevice, kind: MemoryKind) -> list[int]:
    seen = mesh.memory_view(kind)
    return [
        seen.num_banks,
        seen.total_bytes_per_bank,
        seen.total_bytes_allocated_per_bank,
        seen.total_bytes_free_per_bank,
        seen.largest_contiguous_bytes_free_per_bank,
    ]


@pytest.mark.parametrize("board", ["p150", "n300", "p100"])
def test_addresses_and_memory_views_are_those_of_stock_ttnn(board: str) -> None:
    mesh = open_device(
        board=board, l1_small_size=32_768, trace_region_size=1 << 20, tracker=RecordingTracker()
    )
    live: list[SimulatedBuffer] = []
    expected: list[object] = []
    actual: list[object] = []
    for what, *values in json.loads((ANSWERS / f"{board}.json").read_text()):
        if what == "views":
            expected.append(values)
            actual.append([view(mesh, MemoryKind.DRAM), view(mesh, MemoryKind.L1)])
        elif what == "free":
            live.pop(values[0]).deallocate()
        else:
            kind, rows, columns, address = values
            live.append(create_buffer(mesh, rows * columns * 2, TILE_BYTES, MemoryKind[kind]))
            expected.append(address)
            actual.append(live[-1].address)

    assert len(expected) > 100
    assert actual == expected
