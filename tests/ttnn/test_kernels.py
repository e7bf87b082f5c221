"""Ops run on the stand-in for the device compiler, and the runtime takes its ELF files for real."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest

from tests.ttnn.bench.boards import BOARDS
from tests.ttnn.bench.environment import Environment
from tests.ttnn.bench.machine import Machine

PREPARE = "a = ttnn.zeros((1024, 1024), ttnn.bfloat16, ttnn.TILE_LAYOUT, device)"
# Left alone, a matmul on a T3K takes cores that the runtime's own check refuses: 8 x 8 where it allows 8 x 7.
MATMUL = "ttnn.matmul(a, a, core_grid=ttnn.CoreGrid(x=8, y=7))"
OPS = ("ttnn.add(a, a)", MATMUL, "ttnn.softmax(a, -1)")


@pytest.mark.parametrize("board", BOARDS)
def test_ops_fill_the_program_cache(board: str, machine: Callable[[str], Machine]) -> None:
    session = machine(board).session()
    session.run(PREPARE)

    entries = []
    for op in (*OPS, *OPS):
        session.run(f"kept = {op}")
        entries.append(session.run("device.num_program_cache_entries()"))

    assert entries == [1, 2, 3, 3, 3, 3]


def test_kernels_have_sizes_of_their_own(
    environment: Environment, machine: Callable[[str], Machine]
) -> None:
    session = machine("p150").session()
    session.run(PREPARE)
    for op in OPS:
        session.run(f"kept = {op}")

    texts = set()
    for path in environment.kernel_cache.glob("*/kernels/*/*/*/*risc*.elf"):
        if not path.name.endswith(".xip.elf"):
            image = path.read_bytes()
            (entry,) = struct.unpack_from("<I", image, 24)
            _, _, runs_at, loaded_at, size = struct.unpack_from("<5I", image, 52)
            assert (runs_at, loaded_at) == (entry, entry)
            texts.add(size)

    assert len(texts) > 10
    assert min(texts) >= 384
    assert max(texts) <= 12_288
