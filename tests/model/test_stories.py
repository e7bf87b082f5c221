"""Whole runs, from the model through the real client to the real server."""

from __future__ import annotations

from tests.model.running import TILE, eltwise
from tests.patience import PATIENCE_S
from tests.server.harness import RunningServer
from ttmem.client import GraphTracker
from ttmem.model import open_device, open_mesh_device
from ttmem.model.dispatch import launch_program
from ttmem.sizes import human
from ttmem.snapshots import Snapshot
from ttmem.views.ps import render

MIB = 1 << 20


def settled(server: RunningServer, tracker: GraphTracker, dispatches: int) -> Snapshot:
    assert tracker.client.flush(PATIENCE_S)
    return server.sees(
        lambda p: bool(p.devices) and all(d.kernels.dispatches == dispatches for d in p.devices)
    )


def test_zero_kernel_sizes_000_the_right_source_is_the_binary(
    server: RunningServer, tracker: GraphTracker
) -> None:
    mesh = open_device(board="p150", tracker=tracker)
    program = eltwise(mesh.spec)
    mesh.program_cache.run("add", lambda: program)
    layout = program.finalize_offsets()
    assert layout.kernel_bins_size_of_last_core_type == 0
    assert layout.binary_data_bytes == 5 * TILE

    slow = launch_program(mesh, eltwise(mesh.spec))
    assert slow.program.finalize_offsets().kernel_bins_size_of_last_core_type == 0
    kernels = settled(server, tracker, 3).devices[0].kernels
    assert kernels.dram_binaries == 5 * TILE  # the slow one keeps no copy
    assert kernels.footprint.application == 2 * 5 * TILE * 110


def test_binary_x_cores_001_system_kernels_on_every_chip_of_a_t3k(
    server: RunningServer, tracker: GraphTracker
) -> None:
    open_mesh_device((2, 4), board="t3k", tracker=tracker)
    picture = settled(server, tracker, 2)

    assert len(picture.devices) == 8
    for device in picture.devices:
        footprint = device.kernels.footprint
        assert (footprint.fabric, footprint.dispatch) == (896 * 1024, 92 * 1024)
        assert device.l1_used == 0


def test_dispatch_time_002_every_launch_is_counted_and_memory_once(
    server: RunningServer, tracker: GraphTracker
) -> None:
    mesh = open_mesh_device((1, 4), board="p150", tracker=tracker)
    for _ in range(100):
        mesh.program_cache.run("add", lambda: eltwise(mesh.spec))
    picture = settled(server, tracker, 102)

    for device in picture.devices:
        assert device.kernels.footprint.application == 5 * TILE * 110
        assert device.memory.cb.cached == device.memory.cb.resident == 110 * 6 * TILE
        assert (device.kernels.cache_hits, device.kernels.cache_misses) == (99, 1)


def test_fast_dispatch_003_after_warm_up_only_launches_are_seen(
    server: RunningServer, tracker: GraphTracker
) -> None:
    mesh = open_device(board="p150", tracker=tracker)
    for _ in range(10):
        for shape in range(4):
            mesh.program_cache.run(shape, lambda n=shape: eltwise(mesh.spec, name=f"op{n}"))  # type: ignore[misc]
    warm = settled(server, tracker, 41).devices[0].kernels
    assert warm.loads == 1 + 4 * 3

    for _ in range(10):
        for shape in range(4):
            mesh.program_cache.run(shape, lambda: eltwise(mesh.spec))
    assert settled(server, tracker, 81).devices[0].kernels.loads == warm.loads

    mesh.clear_program_cache()
    mesh.program_cache.run(0, lambda: eltwise(mesh.spec, name="op0"))
    assert settled(server, tracker, 82).devices[0].kernels.loads == warm.loads + 3


def test_impossible_totals_004_the_naive_sum_passes_the_capacity_and_l1_never_does(
    server: RunningServer, tracker: GraphTracker
) -> None:
    mesh = open_device(board="n300", tracker=tracker)
    for number in range(2000):
        mesh.program_cache.run(number, lambda n=number: eltwise(mesh.spec, tiles=1 + n % 60))  # type: ignore[misc]
    device = settled(server, tracker, 2001).devices[0]

    assert device.l1_capacity is not None
    assert (device.memory.cb.demand or 0) > device.l1_capacity
    assert (device.kernels.footprint.total or 0) > device.l1_capacity
    assert device.memory.cb.cached == 64 * 60 * TILE
    assert device.l1_used == device.memory.cb.cached < device.l1_capacity
    ring = device.kernels.ring
    assert ring.capacity == 64 * 70_656
    assert 0 < (ring.occupied or 0) <= ring.capacity
    assert device.anomalies == ()
    assert "per-core union" in device.provenance["cb"].method
    text = render(server.picture(), width=400, color=False)
    demand, cached = human(device.memory.cb.demand), human(device.memory.cb.cached)
    assert f"add up to {demand}, more than L1 has; they share addresses and occupy {cached}" in text
