"""Buffers of runtimes that keep what the probe wants to know in fields, and not behind functions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.probe.watched import Watched, build_runtime
from ttmem.events import MemoryKind

Watch = Callable[..., Watched]
SCRIPT = (
    "mesh = lib.mesh_open(2); a = buffer(mesh, 1, 0, 5000, 640); b = buffer(mesh, 2, 3, 64)\n"
    "lib.buffer_free(a); say('made')"
)


def test_fields_are_read_where_an_older_runtime_has_them(watch: Watch, tmp_path: Path) -> None:
    process = watch(SCRIPT, library=build_runtime(tmp_path, "OLD"))
    process.wait_for("made")
    region = process.region()

    for row in region.counters():
        assert (row[MemoryKind.DRAM].count, row[MemoryKind.DRAM].peak) == (0, 640 * 8)
        assert (row[MemoryKind.L1_SMALL].count, row[MemoryKind.L1_SMALL].requested) == (1, 64)
    assert region.features()["buffers"]


def test_fields_in_another_place_switch_buffers_off_with_one_line(
    watch: Watch, tmp_path: Path
) -> None:
    process = watch(SCRIPT, library=build_runtime(tmp_path, "OLD", "MOVED"))
    process.wait_for("made")
    region = process.region()

    assert {counter.count for row in region.counters() for counter in row} == {0}
    assert not region.features()["buffers"]
    told = [line for line in process.end().splitlines() if "buffers: off" in line]
    assert len(told) == 1
