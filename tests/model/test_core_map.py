"""The map of a core, from a running model through a real server, is where the model put things."""

from __future__ import annotations

from random import Random

from tests.model.running import TILE
from tests.patience import PATIENCE_S, wait_until
from tests.server.harness import RunningServer
from ttmem.client import GraphTracker
from ttmem.events import MemoryKind
from ttmem.feeds.server_feed import ServerFeed
from ttmem.hw import DeviceSpec
from ttmem.model import MeshDevice, open_device
from ttmem.model.circular_buffers import Region, union
from ttmem.model.core_ranges import Core, CoreRange, CoreType, cores_of
from ttmem.model.kernels import SimulatedKernel
from ttmem.model.layouts import Sharded
from ttmem.model.mesh import SimulatedBuffer, create_buffer
from ttmem.model.program import SimulatedProgram
from ttmem.snapshots import Snapshot
from ttmem.views.monitor.pages.core_data import grid_cores, pressure
from ttmem.views.monitor.pages.core_map import CoreMap, Sort, core_map

CIRCULAR = (Sort.CB, Sort.DATAFLOW, Sort.CACHED)


def some_program(spec: DeviceSpec, random: Random) -> SimulatedProgram:
    """Circular buffers, or dataflow buffers, on one or two rectangles of the grid."""
    program = SimulatedProgram(spec)
    modern = random.random() < 0.4
    for _ in range(random.randrange(1, 5)):
        x, y = random.randrange(spec.grid.x), random.randrange(spec.grid.y)
        cores = (CoreRange(0, 0, x, y),)
        size = TILE * random.randrange(1, 40)
        if modern:
            program.add_dataflow_buffer(cores, size)
        else:
            program.add_circular_buffer(cores, size)
        program.add_kernel(SimulatedKernel(f"k{x}{y}", CoreType.TENSIX, cores, (900,), 4))
    return program


def some_buffers(mesh: MeshDevice, random: Random) -> list[SimulatedBuffer]:
    """In L1 and L1_SMALL; every third is freed again, so that there are holes."""
    layout = Sharded("height", 8, TILE)
    made = [
        create_buffer(mesh, 8 * TILE, TILE, MemoryKind.L1_SMALL, layout),
        *(
            create_buffer(mesh, TILE * random.randrange(1, 2000), TILE, MemoryKind.L1)
            for _ in range(12)
        ),
    ]
    for buffer in made[2::3]:
        buffer.deallocate()
    return [buffer for buffer in made if buffer.is_allocated]


def cached_regions(mesh: MeshDevice, core: Core) -> tuple[Region, ...]:
    """Where the buffers of live programs lie on a core."""
    return union(
        (buffer.address, buffer.address + buffer.size)
        for workload in mesh.workloads.values()
        for buffer in workload.program.buffers
        if buffer.address is not None and core in cores_of(buffer.cores)
    )


def pieces(found: CoreMap, *sorts: Sort) -> tuple[Region, ...]:
    every = (*found.below, *found.growing_up, found.between, *found.growing_down, *found.above)
    return tuple((piece.start, piece.end) for piece in every if piece.sort in sorts)


def settled(server: RunningServer, mesh: MeshDevice, tracker: GraphTracker) -> Snapshot:
    """A picture in which all that the model did has arrived; the last it did was to free buffers."""
    assert tracker.client.flush(PATIENCE_S)
    live = sorted(buffer.id for buffer in mesh.buffers.values() if buffer.kind == MemoryKind.L1)
    feed = ServerFeed(server.path)

    def complete() -> Snapshot | None:
        picture = feed.read(["cores"])
        rows = [row for row in (picture.l1_buffers or ()) if row.kind == "L1"]
        return picture if sorted(row.id for row in rows) == live else None

    picture = wait_until(complete)
    feed.close()
    assert picture is not None
    return picture


def test_every_core_shows_the_addresses_of_the_model(
    server: RunningServer, tracker: GraphTracker
) -> None:
    random = Random(7)
    mesh = open_device(board="p150", l1_small_size=32_768, tracker=tracker)
    for number in range(12):
        program = some_program(mesh.spec, random)
        mesh.program_cache.run(number, lambda program=program: program)  # type: ignore[misc]
    buffers = some_buffers(mesh, random)
    picture = settled(server, mesh, tracker)
    device = picture.devices[0]

    blocks = sorted(
        (buffer.address, buffer.address + buffer.block)
        for buffer in buffers
        if buffer.kind == MemoryKind.L1
    )
    lowest = mesh.allocator.lowest_occupied_l1_address()
    last = (picture.resident or {})[device.unique_id]
    full = pressure(picture, device)
    for core in grid_cores(full.grid):
        found = core_map(picture, device, core)
        regions = cached_regions(mesh, core)
        assert union(pieces(found, *CIRCULAR)) == regions
        assert list(pieces(found, Sort.BUFFER)) == blocks
        assert found.lowest_buffer == lowest
        top = max((end for _, end in regions), default=mesh.spec.cb_base)
        ran = [one.end for one in last if core in one.cores]
        assert (found.highest_cb or mesh.spec.cb_base) == top
        assert found.distance == (lowest or 0) - max(ran, default=top)
        used = sum(end - start for start, end in regions) + sum(buffer.block for buffer in buffers)
        assert full.used(core) == full.added_up(core) == used  # of one process
    assert full.capacity == mesh.spec.l1_map.worker_l1_size


def test_the_pieces_cover_l1_from_its_first_byte_to_its_last(
    server: RunningServer, tracker: GraphTracker
) -> None:
    random = Random(8)
    mesh = open_device(board="n150", l1_small_size=32_768, tracker=tracker)
    mesh.program_cache.run("one", lambda: some_program(mesh.spec, random))
    some_buffers(mesh, random)
    picture = settled(server, mesh, tracker)

    found = core_map(picture, picture.devices[0], (0, 0))
    every = pieces(found, *Sort)
    assert every[0][0] == 0
    assert every[-1][1] == mesh.spec.l1_per_core
    assert [end for _, end in every[:-1]] == [start for start, _ in every[1:]]
    assert found.below[1].size == mesh.spec.ring_per_core
