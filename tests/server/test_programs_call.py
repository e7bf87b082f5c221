"""The Python API: snapshots as objects, and the few numbers known from torch."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

import ttmem
from tests.patience import PATIENCE_S
from tests.server.conftest import StartServer
from tests.server.harness import RunningServer
from ttmem.client import AllocationClient, Buffer, GraphTracker, MeshDevice
from ttmem.errors import BadInput, NoServer
from ttmem.events import BinaryStatus, DeviceDeclaration, KernelType, MemoryKind
from ttmem.hw import device_spec
from ttmem.snapshots import Losses

MESH = MeshDevice([0, 1, 2, 3])
CORES = ((0, 0, 10, 9),)


@pytest.fixture
def tracker(server: RunningServer) -> Iterator[GraphTracker]:
    made = GraphTracker(AllocationClient(server.path))
    made.enabled = True
    spec = device_spec("p150", l1_small_size=32_768)
    for number in range(4):
        made.declare_device(DeviceDeclaration.from_spec(spec, number, str(9000 + number)))
    yield made
    made.client.close()


def test_the_numbers_that_users_know_from_torch(
    server: RunningServer, tracker: GraphTracker
) -> None:
    small, large = (Buffer(n, n * 1000, MemoryKind.DRAM, 1) for n in (1, 2))
    tracker.track_allocate(small)
    tracker.track_allocate(large)
    tracker.track_deallocate(large)
    assert tracker.client.flush(PATIENCE_S)
    server.sees(lambda p: any(d.memory.dram.peak == 3000 for d in p.devices))

    assert ttmem.memory_allocated(1, socket=server.path, process="all") == 1000
    assert ttmem.memory_allocated("9001", socket=server.path, process="all") == 1000
    assert ttmem.max_memory_allocated(1, socket=server.path, process="all") == 3000
    assert ttmem.memory_allocated(1, "l1_used", socket=server.path, process="all") == 0
    ttmem.reset_peak(1, socket=server.path, process="all")
    assert ttmem.max_memory_allocated(1, socket=server.path, process="all") == 1000


def test_an_unknown_device_is_named_together_with_the_known_ones(
    server: RunningServer, tracker: GraphTracker
) -> None:
    tracker.track_allocate(Buffer(1, 10, MemoryKind.L1, 0))
    tracker.client.flush(PATIENCE_S)
    server.sees(lambda p: len(p.devices) == 4)

    with pytest.raises(BadInput, match=r"no process has reported device 7; known are: 0 \(9000\)"):
        ttmem.memory_allocated(7, socket=server.path, process="all")
    with pytest.raises(BadInput, match="there is no detail 'everything'"):
        ttmem.snapshot(server.path, ["everything"])


def test_without_a_server_the_error_says_what_to_do(tmp_path: object) -> None:
    with pytest.raises(NoServer, match="ttmem serve"):
        ttmem.snapshot(f"{tmp_path}/nobody.sock")


def test_a_program_on_a_mesh_is_seen_on_every_chip_with_all_its_parts(
    server: RunningServer, tracker: GraphTracker
) -> None:
    tracker.track_allocate_cb(CORES, 111_744, 12_288, False, MESH, program_id=5)
    tracker.track_allocate_cb(CORES, 111_744, 4096, True, MESH, program_id=5)
    tracker.track_kernel_load(100 * 1024, 5, MESH, num_cores=110, name="matmul", content_id=77)
    tracker.track_binary_status(5, MESH, BinaryStatus.IN_FLIGHT)
    tracker.track_program_dispatch(5, MESH, cache_hit=False)
    tracker.track_binary_status(5, MESH, BinaryStatus.COMMITTED)
    for _ in range(1000):
        tracker.track_program_dispatch(5, MESH, cache_hit=True)
    tracker.track_ring(MESH, 5792 * 110, 3, 4, programs=2)
    tracker.track_cache_entries(MESH, 1)
    assert tracker.client.flush(PATIENCE_S)
    picture = server.sees(
        lambda p: len(p.devices) == 4 and all(d.kernels.cache_entries == 1 for d in p.devices)
    )

    for device in picture.devices:
        assert device.memory.cb.cached == device.memory.cb.resident == 110 * 12_288
        assert device.memory.cb.demand == device.l1_used == 110 * 12_288
        kernels = device.kernels
        assert kernels.footprint.application == 110 * 100 * 1024
        assert kernels.dram_binaries == 100 * 1024
        assert (kernels.loads, kernels.dispatches) == (1, 1001)
        assert (kernels.cache_hits, kernels.cache_misses) == (1000, 1)
        assert (kernels.distinct_binaries, kernels.distinct_binary_bytes) == (1, 100 * 1024)
        assert (kernels.ring.occupied, kernels.ring.wraps, kernels.ring.syncs) == (5792 * 110, 3, 4)
        assert kernels.ring.capacity == 110 * 70_656

    seen = server.picture("programs", "cores")
    assert {program.status for program in seen.programs or ()} == {"Committed"}
    first = (seen.cores or {})["9000"][0]
    assert first.regions == ((111_744, 111_744 + 12_288),)
    assert len(first.cores) == 110

    tracker.track_program_destroy(5, MESH)
    tracker.client.flush(PATIENCE_S)
    gone = server.sees(lambda p: all(d.kernels.footprint.total == 0 for d in p.devices))
    assert all(d.memory.cb.demand == d.kernels.dram_binaries == 0 for d in gone.devices)


def test_system_kernels_on_a_mesh_have_the_same_figures_on_all_four(
    server: RunningServer, tracker: GraphTracker
) -> None:
    tracker.track_kernel_load(57_344, 1, MESH, KernelType.FABRIC, 16)
    tracker.track_kernel_load(47_104, 2, MESH, KernelType.DISPATCH, 2)
    tracker.track_kernel_load(100 * 1024, 3, MESH, num_cores=80)
    tracker.client.flush(PATIENCE_S)
    picture = server.sees(
        lambda p: len(p.devices) == 4 and all(d.kernels.loads == 3 for d in p.devices)
    )

    for device in picture.devices:
        footprint = device.kernels.footprint
        assert (footprint.fabric, footprint.dispatch) == (917_504, 94_208)
        assert footprint.application == 8000 * 1024
        assert footprint.total == 8000 * 1024 + 988 * 1024
        assert device.l1_used == 0


def test_copies_of_a_kernel_are_told_from_distinct_ones_by_name_and_size(
    server: RunningServer, tracker: GraphTracker
) -> None:
    for number, (name, size) in enumerate(
        (("add", 1000), ("add", 1000), ("add", 2000), ("mul", 1000)), 1
    ):
        tracker.track_kernel_load(size, number, 0, name=name)
    tracker.client.flush(PATIENCE_S)
    picture = server.sees(lambda p: bool(p.devices) and p.devices[0].kernels.loads == 4)

    kernels = picture.devices[0].kernels
    assert (kernels.distinct_binaries, kernels.distinct_binary_bytes) == (3, 4000)


def test_who_runs_on_which_core_survives_a_restart_of_the_server(
    server: RunningServer, tracker: GraphTracker, start: StartServer
) -> None:
    for program in (1, 2, 3):
        tracker.track_allocate_cb(CORES, 111_744, 1000 * program, False, 0, program_id=program)
    for program in (3, 1, 2):
        tracker.track_program_dispatch(program, 0)
    tracker.client.flush(PATIENCE_S)
    server.sees(lambda p: bool(p.devices) and p.devices[0].memory.cb.resident == 110 * 2000)
    server.kill()
    second = start(name="second")

    picture = second.sees(
        lambda p: bool(p.devices) and p.devices[0].memory.cb.resident == 110 * 2000
    )
    assert picture.devices[0].memory.cb.cached == 110 * 3000
    assert picture.devices[0].kernels.dispatches == 3


def test_a_script_that_ends_at_once_is_seen_whole_as_the_readme_shows_it(
    server: RunningServer,
) -> None:
    script = """
from ttmem.client import Buffer, GraphTracker, KernelType, MemoryKind
tracker = GraphTracker.instance()
weights = Buffer(id=1, size=64 << 20, kind=MemoryKind.DRAM, device=0)
tracker.track_allocate(weights)
tracker.track_kernel_load(57_344, 7, 0, KernelType.FABRIC, num_cores=16)
tracker.track_allocate_cb([(0, 0), (1, 0)], 111_744, 4096, False, 0, program_id=7)
"""
    environment = {**os.environ, "TT_ALLOC_TRACKING_ENABLED": "1", "TTMEM_SOCKET": server.path}
    subprocess.run([sys.executable, "-c", script], env=environment, check=True)

    picture = server.sees(lambda p: bool(p.left_behind))
    (left,) = picture.left_behind
    (held,) = left.devices.values()
    assert (held.dram, held.cb) == (64 << 20, 2 * 4096)
    assert picture.devices[0].kernels.loads == 1
    assert picture.devices[0].memory.dram.peak == 64 << 20
    assert picture.losses.dropped_events == 0


def test_a_restart_of_the_server_loses_nothing(
    server: RunningServer, tracker: GraphTracker, start: StartServer
) -> None:
    buffer = Buffer(1, 10, MemoryKind.L1, 0)
    tracker.track_allocate(buffer)
    tracker.client.flush(PATIENCE_S)
    server.kill()
    for _ in range(1000):
        tracker.track_allocate(Buffer(2, 20, MemoryKind.L1, 0))
        tracker.track_deallocate(Buffer(2, 20, MemoryKind.L1, 0))
    second = start(name="second")

    picture = second.sees(lambda p: bool(p.devices) and p.devices[0].l1_used == 10)
    assert picture.losses == Losses(0, 0, 0)


def test_the_last_events_are_described(server: RunningServer, tracker: GraphTracker) -> None:
    tracker.track_allocate(Buffer(5, 4096, MemoryKind.L1, 2, site="attention"))
    tracker.client.flush(PATIENCE_S)
    server.sees(lambda p: any(d.l1_used for d in p.devices))

    event = (server.picture("events").events or ())[-1]
    assert (event.op, event.kind, event.device) == ("ALLOC", "L1", "9002")
    assert (event.site, event.size, event.pid) == ("attention", 4096, os.getpid())
    assert event.time_ns > 0
