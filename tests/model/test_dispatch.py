"""Launching programs: status, the copy in DRAM, the ring, the cache, traces."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.model.running import TILE, RecordingTracker, eltwise
from ttmem.events import BinaryStatus, MemoryKind
from ttmem.model import MeshDevice, create_buffer, open_device, open_mesh_device
from ttmem.model.dispatch import enqueue_mesh_workload, launch_program
from ttmem.model.errors import ClashFault, OutOfMemory, RuntimeFault, UseAfterClose
from ttmem.model.mesh import MeshWorkload
from ttmem.model.traces import (
    begin_trace_capture,
    end_trace_capture,
    execute_trace,
    release_trace,
)

BINARIES = 5 * TILE  # reader, writer and three compute binaries, each padded to a page


@pytest.fixture
def mesh() -> MeshDevice:
    return open_device(board="p150", l1_small_size=32_768, tracker=RecordingTracker())


def dram(mesh: MeshDevice) -> int:
    return mesh.memory_view(MemoryKind.DRAM).total_bytes_allocated_per_bank


def test_the_first_enqueue_sends_the_binaries_and_later_ones_do_not(mesh: MeshDevice) -> None:
    workload = MeshWorkload(eltwise(mesh.spec))
    first = enqueue_mesh_workload(mesh, workload)
    (binaries,) = mesh.buffers.values()
    second = enqueue_mesh_workload(mesh, workload)

    assert workload.status is BinaryStatus.COMMITTED
    assert (binaries.size, binaries.block) == (BINARIES, TILE)
    top = mesh.spec.dram_reserved + mesh.spec.dram_bank_size
    assert binaries.address == top - TILE
    assert [slot and slot.stall_first for slot in (first, second)] == [True, False]
    assert list(mesh.buffers.values()) == [binaries]


def test_slow_dispatch_keeps_no_copy_in_dram() -> None:
    mesh = open_device(board="p150", dispatch="slow", tracker=RecordingTracker())
    workload = launch_program(mesh, eltwise(mesh.spec))
    enqueue_mesh_workload(mesh, workload)

    assert dram(mesh) == 0
    assert workload.status is BinaryStatus.NOT_SENT
    assert mesh.command_queue().ring.occupied == 0


def test_launches_fill_the_ring_and_never_more_than_it_has(mesh: MeshDevice) -> None:
    workloads = [MeshWorkload(eltwise(mesh.spec, text=4000 + 16 * n)) for n in range(5)]
    for _ in range(4):
        for workload in workloads:
            enqueue_mesh_workload(mesh, workload)
    ring = mesh.command_queue().ring

    assert 0 < ring.occupied <= mesh.spec.ring_per_core
    assert ring.wraps > 0
    assert ring.syncs >= ring.wraps
    assert ring.live_entries <= 7


def test_a_clash_with_an_l1_buffer_is_refused_with_the_runtimes_message(mesh: MeshDevice) -> None:
    low = mesh.spec.l1_banks * (mesh.spec.l1_bank_size - 8 * TILE) // TILE * TILE
    buffer = create_buffer(mesh, low, TILE, MemoryKind.L1)
    workload = MeshWorkload(eltwise(mesh.spec, tiles=30))

    with pytest.raises(ClashFault, match="clash with L1 buffers"):
        enqueue_mesh_workload(mesh, workload)
    assert mesh.workloads.keys() == {w for w in mesh.workloads if w != workload.id}

    buffer.deallocate()
    enqueue_mesh_workload(mesh, workload)
    assert workload.id in mesh.workloads


def test_the_clash_is_checked_at_every_enqueue(mesh: MeshDevice) -> None:
    workload = MeshWorkload(eltwise(mesh.spec, tiles=30))
    enqueue_mesh_workload(mesh, workload)
    low = mesh.spec.l1_banks * (mesh.spec.l1_bank_size - 8 * TILE) // TILE * TILE
    create_buffer(mesh, low, TILE, MemoryKind.L1)

    with pytest.raises(ClashFault):
        enqueue_mesh_workload(mesh, workload)


def test_the_program_cache_keeps_programs_until_it_is_cleared(mesh: MeshDevice) -> None:
    cache = mesh.program_cache
    for _ in range(3):
        cache.run("add", lambda: eltwise(mesh.spec))
        cache.run("mul", lambda: eltwise(mesh.spec, name="mul"))
    assert (len(cache), cache.hits, cache.misses) == (2, 4, 2)
    assert dram(mesh) == 2 * TILE

    mesh.clear_program_cache()
    assert (mesh.num_program_cache_entries(), dram(mesh)) == (0, 0)
    cache.run("add", lambda: eltwise(mesh.spec))
    assert cache.misses == 3


def test_without_the_cache_a_program_leaves_nothing(mesh: MeshDevice) -> None:
    mesh.disable_and_clear_program_cache()
    mesh.program_cache.run("add", lambda: eltwise(mesh.spec))

    assert (mesh.num_program_cache_entries(), dram(mesh)) == (0, 0)
    mesh.enable_program_cache()
    mesh.program_cache.run("add", lambda: eltwise(mesh.spec))
    assert mesh.num_program_cache_entries() == 1


@pytest.mark.parametrize(("region", "kind"), [(1 << 20, MemoryKind.TRACE), (0, MemoryKind.DRAM)])
def test_a_trace_is_captured_replayed_and_released(region: int, kind: MemoryKind) -> None:
    mesh = open_device(board="p150", trace_region_size=region, tracker=RecordingTracker())
    workload = MeshWorkload(eltwise(mesh.spec))
    enqueue_mesh_workload(mesh, workload)
    before = mesh.memory_view(kind).total_bytes_allocated_per_bank
    ring = mesh.command_queue().ring
    occupied = ring.occupied

    trace = begin_trace_capture(mesh)
    assert enqueue_mesh_workload(mesh, workload) is None
    assert ring.occupied == occupied
    end_trace_capture(mesh, trace)
    assert mesh.memory_view(kind).total_bytes_allocated_per_bank > before
    execute_trace(mesh, trace)
    assert ring.occupied == mesh.spec.ring_per_core

    create_buffer(mesh, TILE, TILE, MemoryKind.DRAM)
    assert mesh.allocations_during_trace == 1
    release_trace(mesh, trace)
    create_buffer(mesh, TILE, TILE, MemoryKind.DRAM)
    assert mesh.allocations_during_trace == 1
    with pytest.raises(RuntimeFault, match="no trace"):
        execute_trace(mesh, trace)


def test_new_binaries_cannot_be_loaded_while_a_trace_is_captured(mesh: MeshDevice) -> None:
    begin_trace_capture(mesh)

    with pytest.raises(RuntimeFault, match="run it once first"):
        enqueue_mesh_workload(mesh, MeshWorkload(eltwise(mesh.spec)))


def test_no_memory_for_the_binaries_leaves_the_program_unsent(mesh: MeshDevice) -> None:
    pages = mesh.spec.dram_bank_size // TILE * mesh.spec.dram_banks
    create_buffer(mesh, pages * TILE, TILE, MemoryKind.DRAM)
    before = dict(mesh.workloads)

    with pytest.raises(OutOfMemory):
        mesh.program_cache.run("add", lambda: eltwise(mesh.spec))
    assert (mesh.num_program_cache_entries(), mesh.workloads) == (0, before)


def test_nothing_runs_on_a_closed_mesh(mesh: MeshDevice) -> None:
    workload = MeshWorkload(eltwise(mesh.spec))
    enqueue_mesh_workload(mesh, workload)
    mesh.close()

    assert (mesh.buffers, mesh.workloads) == ({}, {})
    for call in (lambda: enqueue_mesh_workload(mesh, workload), lambda: begin_trace_capture(mesh)):
        with pytest.raises(UseAfterClose):
            call()


def test_two_threads_may_run_programs_on_one_mesh() -> None:
    mesh = open_mesh_device((1, 4), board="p150", tracker=RecordingTracker())

    def work(name: str) -> None:
        for number in range(50):
            mesh.program_cache.run((name, number % 5), lambda: eltwise(mesh.spec, name=name))

    threads = [threading.Thread(target=work, args=(name,)) for name in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(mesh.program_cache), mesh.program_cache.hits) == (10, 90)


steps = st.lists(
    st.one_of(
        st.tuples(st.just("l1"), st.integers(1, 400)),
        st.tuples(st.just("small"), st.integers(1, 16)),
        st.tuples(st.just("free"), st.integers(0, 20)),
        st.tuples(st.just("run"), st.integers(1, 300)),
        st.tuples(st.just("clear"), st.just(0)),
    ),
    max_size=25,
)


@settings(max_examples=40, deadline=None)
@given(steps)
def test_on_every_core_the_zones_of_l1_never_meet(sequence: list[tuple[str, int]]) -> None:
    mesh = open_device(board="n150", l1_small_size=16_384, tracker=RecordingTracker())
    spec = mesh.spec
    for what, number in sequence:
        try:
            if what == "l1":
                create_buffer(mesh, number * TILE * spec.l1_banks, TILE, MemoryKind.L1)
            elif what == "free" and mesh.buffers:
                list(mesh.buffers.values())[number % len(mesh.buffers)].deallocate()
            elif what == "run":
                mesh.program_cache.run(number, lambda n=number: eltwise(spec, tiles=n))  # type: ignore[misc]
            elif what == "clear":
                mesh.clear_program_cache()
        except (OutOfMemory, ClashFault):
            continue
        if what != "run":
            continue
        lowest = mesh.allocator.lowest_occupied_l1_address()
        last = mesh.program_cache.run(number, lambda n=number: eltwise(spec, tiles=n))  # type: ignore[misc]
        assert last.program.l1 is not None
        end = last.program.l1.end_address
        assert spec.l1_map.kernel_config_base + spec.ring_per_core <= spec.cb_base <= end
        top = spec.l1_per_core - spec.l1_small_bank_size
        assert end <= (lowest or top) <= top
