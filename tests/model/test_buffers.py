"""Buffers on a mesh: what is reported, when, and what is refused."""

from __future__ import annotations

import threading
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.model.running import RecordingTracker
from ttmem.client.devices import ReportedBuffer
from ttmem.events import MemoryKind
from ttmem.model import (
    MeshDevice,
    Sharded,
    SimulatedBuffer,
    create_buffer,
    open_device,
    open_mesh_device,
)
from ttmem.model.errors import DoubleFree, OutOfMemory, UseAfterClose

DRAM, L1 = MemoryKind.DRAM, MemoryKind.L1


@pytest.fixture
def tracker() -> RecordingTracker:
    return RecordingTracker()


@pytest.fixture
def mesh(tracker: RecordingTracker) -> MeshDevice:
    return open_mesh_device((1, 4), l1_small_size=32768, trace_region_size=1 << 20, tracker=tracker)


def test_one_report_with_size_and_reserved_reaches_each_chip(
    mesh: MeshDevice, tracker: RecordingTracker
) -> None:
    buffer = create_buffer(mesh, 1024 * 2048, 2048, L1)
    buffer.deallocate()

    told = (buffer.id, 1_519_616, 2_097_152, 2_252_800, (0, 1, 2, 3))
    assert tracker.events == [("allocate", *told), ("deallocate", *told)]


def test_freeing_is_reported_before_it_happens() -> None:
    held: list[int] = []

    class Watching(RecordingTracker):
        def track_deallocate(self, buffer: ReportedBuffer) -> None:
            held.append(device.memory_view(DRAM).total_bytes_allocated_per_bank)

    device = open_device(tracker=Watching())
    create_buffer(device, 2048, 2048, DRAM).deallocate()
    held.append(device.memory_view(DRAM).total_bytes_allocated_per_bank)

    assert held == [2048, 0]


def test_ids_are_unique_in_the_process(mesh: MeshDevice) -> None:
    with open_device(tracker=RecordingTracker()) as other:
        ids = [create_buffer(on, 64, 64, DRAM).id for on in (mesh, other, mesh, other)]

    assert len(set(ids)) == 4
    assert ids == sorted(ids)


def test_an_empty_buffer_is_not_reported(mesh: MeshDevice, tracker: RecordingTracker) -> None:
    buffer = create_buffer(mesh, 0, 2048, L1)
    buffer.deallocate()

    assert (buffer.address, buffer.reserved, tracker.events) == (0, 0, [])


def test_kernel_binaries_can_come_from_the_top_of_dram(mesh: MeshDevice) -> None:
    buffer = create_buffer(mesh, 5 * 2048, 2048, DRAM, bottom_up=False)

    assert buffer.address == mesh.spec.dram_reserved + mesh.spec.dram_bank_size - 2048
    assert buffer.reserved == 16_384


def test_a_buffer_larger_than_a_bank_does_not_change_the_accounts(
    mesh: MeshDevice, tracker: RecordingTracker
) -> None:
    before = mesh.memory_view(L1)
    with pytest.raises(OutOfMemory, match="Out of Memory: Not enough space"):
        create_buffer(mesh, 2 << 20, 2048, L1, Sharded("height", 1, 2 << 20))

    assert (mesh.memory_view(L1), mesh.buffers, tracker.events) == (before, {}, [])


@pytest.mark.parametrize("size", [0, 2048])
def test_a_second_free_is_refused_and_not_reported(
    mesh: MeshDevice, tracker: RecordingTracker, size: int
) -> None:
    buffer = create_buffer(mesh, size, 2048, DRAM)
    other = create_buffer(mesh, 2048, 2048, DRAM)
    buffer.deallocate()
    reported = len(tracker.events)

    with pytest.raises(DoubleFree, match=f"buffer {buffer.id}"):
        buffer.deallocate()
    assert len(tracker.events) == reported
    assert mesh.buffers == {other.id: other}


def test_a_freed_buffer_does_not_free_its_successor_at_the_same_address(mesh: MeshDevice) -> None:
    first = create_buffer(mesh, 2048, 2048, DRAM)
    first.deallocate()
    second = create_buffer(mesh, 2048, 2048, DRAM)

    with pytest.raises(DoubleFree):
        first.deallocate()
    assert second.address == first.address
    assert second.is_allocated


def test_allocating_while_a_trace_lives_is_flagged(mesh: MeshDevice) -> None:
    create_buffer(mesh, 64, 64, DRAM)
    mesh.live_traces += 1
    create_buffer(mesh, 1024, 1024, MemoryKind.TRACE)
    unsafe = create_buffer(mesh, 64, 64, DRAM)
    mesh.live_traces -= 1
    create_buffer(mesh, 64, 64, DRAM)

    assert mesh.allocations_during_trace == 1
    assert [f"buffer {unsafe.id} " in warning for warning in mesh.warnings] == [True]


def test_closing_reports_what_is_still_allocated(
    mesh: MeshDevice, tracker: RecordingTracker
) -> None:
    freed, kept = (create_buffer(mesh, 64, 64, kind) for kind in (DRAM, L1))
    freed.deallocate()
    mesh.close()
    mesh.close()

    assert (tracker.live(), kept.is_allocated, len(tracker.events)) == (set(), False, 4)


def test_nothing_can_be_done_with_a_closed_mesh(mesh: MeshDevice) -> None:
    buffer = create_buffer(mesh, 64, 64, DRAM)
    mesh.close()

    for use in (
        lambda: create_buffer(mesh, 64, 64, DRAM),
        lambda: create_buffer(mesh, 0, 64, DRAM),
        lambda: mesh.memory_view(DRAM),
        buffer.deallocate,
    ):
        with pytest.raises(UseAfterClose, match="is closed"):
            use()


def test_two_threads_share_a_mesh(mesh: MeshDevice, tracker: RecordingTracker) -> None:
    def work() -> None:
        held: list[SimulatedBuffer] = []
        for turn in range(300):
            held.append(create_buffer(mesh, 2048 * (1 + turn % 7), 2048, (DRAM, L1)[turn % 2]))
            if turn % 3 == 0:
                held.pop(turn % len(held)).deallocate()
        for buffer in held:
            buffer.deallocate()

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert (len(tracker.events), tracker.live(), mesh.buffers) == (1200, set(), {})
    assert mesh.memory_view(L1).largest_contiguous_bytes_free_per_bank == mesh.spec.l1_bank_size


@settings(max_examples=50)
@given(st.lists(st.tuples(st.booleans(), st.sampled_from([DRAM, L1]), st.integers(1, 40_000))))
def test_reports_add_up_to_what_the_allocator_holds(
    steps: list[tuple[bool, MemoryKind, int]],
) -> None:
    mesh = open_device(board="n150", tracker=RecordingTracker())
    for free, kind, pages in steps:
        if free and mesh.buffers:
            next(iter(mesh.buffers.values())).deallocate()
            continue
        with suppress(OutOfMemory):
            create_buffer(mesh, pages * 2048, 2048, kind)

    for kind in (DRAM, L1):
        view = mesh.memory_view(kind)
        reserved = sum(b.reserved for b in mesh.buffers.values() if b.kind == kind)
        assert reserved == view.total_bytes_allocated_per_bank * view.num_banks
        used = view.total_bytes_allocated_per_bank + view.total_bytes_free_per_bank
        assert used == view.total_bytes_per_bank
