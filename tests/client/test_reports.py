"""What a report becomes at the server."""

from __future__ import annotations

import time

import pytest

from tests.client.conftest import Settle
from tests.client.peer import Peer, Session
from tests.patience import PATIENCE_S, wait_until
from ttmem.client import (
    AllocationClient,
    BinaryStatus,
    Buffer,
    Device,
    DeviceDeclaration,
    GraphTracker,
    KernelType,
    MemoryKind,
    MeshDevice,
)
from ttmem.events import Op

GRID = ((0, 0, 7, 7),)


def session_of(peer: Peer) -> Session:
    session = peer.session()
    assert session is not None
    return session


def test_a_buffer_is_known_until_it_is_freed(
    tracker: GraphTracker, peer: Peer, settle: Settle
) -> None:
    kept = Buffer(1, 4096, MemoryKind.DRAM, 0)
    freed = Buffer(2, 512, MemoryKind.L1, 0)

    tracker.track_allocate(kept)
    tracker.track_allocate(freed)
    tracker.track_deallocate(freed)
    settle()

    assert session_of(peer).accounts.buffers == {(0, 0, 1): (4096, 1)}


def test_every_field_of_a_buffer_arrives(tracker: GraphTracker, peer: Peer, settle: Settle) -> None:
    settle()
    before = time.time_ns()
    buffer = Buffer(7, 4096, MemoryKind.L1_SMALL, 3, address=0x1000, reserved=8192, site="m.py:9")

    tracker.track_allocate(buffer)
    settle()

    session = session_of(peer)
    event = next(event for event in session.events if event[0] == Op.ALLOC)
    site = event[12]
    assert (*event[:4], *event[5:]) == (1, 3, 0, 3, 7, 4096, 8192, 0x1000, 1, 0, 0, site)
    assert before <= event[4] <= time.time_ns()
    assert session.strings[site] == "m.py:9"


def test_the_same_size_again_is_a_reference_and_another_size_replaces(
    tracker: GraphTracker, peer: Peer, settle: Settle
) -> None:
    shared = Buffer(1, 4096, MemoryKind.L1, 0)
    for buffer in (shared, shared, shared):
        tracker.track_allocate(buffer)
    tracker.track_deallocate(shared)
    tracker.track_allocate(Buffer(2, 100, MemoryKind.L1, 0))
    tracker.track_allocate(Buffer(2, 200, MemoryKind.L1, 0))

    peer.hang_up()
    settle()

    assert session_of(peer).accounts.buffers == {(0, 1, 1): (4096, 2), (0, 1, 2): (200, 1)}


def test_a_mesh_of_four_is_four_events_and_counts_a_device_once(
    tracker: GraphTracker, peer: Peer, settle: Settle
) -> None:
    mesh = MeshDevice([Device(0), 1, Device(2), Device(3), 1, MeshDevice([0, 3])])

    tracker.track_allocate(Buffer(1, 4096, MemoryKind.DRAM, mesh))
    settle()

    assert mesh.get_device_ids() == (0, 1, 2, 3)
    assert sorted(session_of(peer).accounts.buffers) == [(d, 0, 1) for d in range(4)]


def test_system_kernels_have_their_footprints_on_every_device_of_a_mesh(
    tracker: GraphTracker, peer: Peer, settle: Settle
) -> None:
    mesh = MeshDevice(range(4))

    tracker.track_kernel_load(57_344, 0xFAB, mesh, KernelType.FABRIC, 16)
    tracker.track_kernel_load(47_104, 0xD15, mesh, KernelType.DISPATCH, 2)
    settle()

    accounts = session_of(peer).accounts
    assert accounts.kernels[0, 0xFAB] == (57_344, 16, KernelType.FABRIC, 0xFAB)
    assert accounts.kernels[3, 0xD15] == (47_104, 2, KernelType.DISPATCH, 0xD15)
    assert [accounts.footprint(d) for d in range(4)] == [917_504 + 94_208] * 4
    assert 917_504 + 94_208 == 988 * 1024


def test_a_kernel_on_eighty_cores_takes_eight_thousand_kilobytes(
    tracker: GraphTracker, peer: Peer, settle: Settle
) -> None:
    tracker.track_kernel_load(100 * 1024, 1, 0, num_cores=80)
    settle()

    assert session_of(peer).accounts.footprint(0) == 8000 * 1024


def test_a_thousand_dispatches_of_a_cached_program_change_counters_only(
    tracker: GraphTracker, peer: Peer, settle: Settle
) -> None:
    tracker.track_kernel_load(2048, 5, 0)
    settle()
    before = session_of(peer).accounts.picture()

    for _ in range(500):
        tracker.track_kernel_load(2048, 5, 0)
        tracker.track_program_dispatch(5, 0, cache_hit=True)
    tracker.track_program_dispatch(5, 0, cache_hit=False)
    settle()

    after = session_of(peer).accounts.picture()
    assert before.pop("counters") == [[0, 1, 0, 0, 0, 0]]
    assert after.pop("counters") == [[0, 1, 0, 1001, 500, 1]]
    assert after == before


def test_circular_buffers_are_counted_over_their_cores(
    tracker: GraphTracker, peer: Peer, settle: Settle
) -> None:
    two_parts = ((0, 0, 1, 1), (1, 1, 2, 2))  # they share a core

    tracker.track_allocate_cb(GRID, 0x8000, 2048, False, 0, 1)
    tracker.track_allocate_cb([(0, 0, 7, 7)], 0x9000, 1024, True, 0, 1)
    tracker.track_allocate_cb(two_parts, 0xA000, 10, False, 0, 2, dataflow=True)
    tracker.track_allocate_cb(8, 0xB000, 100, False, 0)
    tracker.track_allocate_cb(None, 0xC000, 5000, False, 0)
    settle()

    session = session_of(peer)
    assert session.cores == {0: [], 1: [*GRID], 2: [*two_parts]}
    assert sorted(session.accounts.cbs) == [
        (0, 0x8000, 64 * 2048, 1, 1, 0),
        (0, 0x9000, 64 * 1024, 1, 1, 2),
        (0, 0xA000, 7 * 10, 2, 2, 4),
        (0, 0xB000, 800, 0, 0, 0),
        (0, 0xC000, 5000, 0, 0, 0),
    ]


def test_a_free_finds_its_circular_buffer_however_little_it_says(
    tracker: GraphTracker, peer: Peer, settle: Settle
) -> None:
    for program in (1, 2):
        tracker.track_allocate_cb(GRID, 0x8000, 2048, False, 0, program)
    tracker.track_allocate_cb(GRID, 0x9000, 1024, True, 0, 3, dataflow=True)
    tracker.track_allocate_cb(GRID, 0xA000, 512, False, 0, 4)

    tracker.track_deallocate_cb(0, 0x8000, 2048, GRID, 1)  # in full
    tracker.track_deallocate_cb(0, 0x9000, 1024, GRID, 3, dataflow=True)  # it was global
    tracker.track_deallocate_cb(0, 0xA000, 512)  # neither cores nor program
    settle()

    accounts = session_of(peer).accounts
    assert accounts.picture()["cbs"] == [[0, 0x8000, 64 * 2048, 2, 1, 0, 1]]
    assert accounts.unknown_frees == 0


def test_equal_circular_buffers_stack(tracker: GraphTracker, peer: Peer, settle: Settle) -> None:
    for _ in range(3):
        tracker.track_allocate_cb(GRID, 0x8000, 2048, False, 0, 1)
    tracker.track_deallocate_cb(0, 0x8000, 2048, GRID, 1)

    peer.hang_up()
    settle()

    assert session_of(peer).accounts.picture()["cbs"] == [[0, 0x8000, 64 * 2048, 1, 1, 0, 2]]


def test_a_destroyed_program_takes_its_kernels_circular_buffers_and_status_with_it(
    tracker: GraphTracker, peer: Peer, settle: Settle
) -> None:
    for program in (1, 2):
        tracker.track_kernel_load(2048, 10 + program, 0, program_id=program)
        tracker.track_allocate_cb(GRID, 0x8000, 64, False, 0, program)
        tracker.track_binary_status(program, 0, BinaryStatus.COMMITTED)

    tracker.track_program_destroy(1, 0)
    peer.hang_up()
    settle()

    assert session_of(peer).accounts.picture() == {
        "buffers": [],
        "cbs": [[0, 0x8000, 64 * 64, 2, 1, 0, 1]],
        "kernels": [[0, 12, 2048, 1, 0, 2]],
        "statuses": [[0, 2, BinaryStatus.COMMITTED]],
        "counters": [[0, 2, 1, 0, 0, 0]],
        "rings": [],
        "cache_entries": [],
    }


def test_ring_cache_entries_and_names_arrive_also_when_sent_again(
    tracker: GraphTracker, peer: Peer, settle: Settle
) -> None:
    tracker.track_ring(0, 1024, 2, 3, capacity=70_656, programs=4)
    tracker.track_cache_entries(0, 17)
    tracker.track_kernel_load(64, 1, 0, name="reader", content_id=99)

    peer.hang_up()
    settle()

    session = session_of(peer)
    load = next(event for event in session.events if event[0] == Op.KERNEL_LOAD)
    assert session.accounts.rings == {0: (1024, 70_656, 2, 3, 4)}
    assert session.accounts.cache_entries == {0: 17}
    assert (load[8], session.strings[load[11]]) == (99, "reader")


def test_a_device_is_declared_before_its_first_event_and_again_to_each_server(
    tracker: GraphTracker, peer: Peer, settle: Settle
) -> None:
    known = DeviceDeclaration(logical_id=1, board="n300", l1_banks=64)
    tracker.track_allocate(Buffer(1, 64, MemoryKind.L1, MeshDevice([0, Device(1, known)])))
    tracker.declare_device(DeviceDeclaration(logical_id=0, board="p150"))
    settle()
    first = session_of(peer).devices

    peer.hang_up()
    settle()

    assert first == {
        0: {"logical_id": 0, "board": "p150"},
        1: {"logical_id": 1, "board": "n300", "l1_banks": 64},
    }
    assert session_of(peer).devices == first


def test_the_hello_says_who_is_speaking(client: AllocationClient, peer: Peer) -> None:
    client.report_allocation(0, 1, 64)
    assert client.flush(PATIENCE_S)

    hello = session_of(peer).hello
    who = {"pid", "start_time_ns", "name", "container_pid", "role"}
    assert set(hello) == {*who, "reporter", "image", "hears"}
    assert hello["start_time_ns"] <= time.time_ns()
    assert "py" in hello["name"]


@pytest.mark.parametrize(("clock", "told"), [(-5, 0), ((1 << 63) + 5, (1 << 63) + 5)])
def test_a_client_reports_whatever_its_clock_says(
    client: AllocationClient,
    peer: Peer,
    monkeypatch: pytest.MonkeyPatch,
    clock: int,
    told: int,
) -> None:
    monkeypatch.setattr("ttmem.client.api.time_ns", lambda: clock)
    client.report_allocation(0, 1, 64)
    assert client.flush(60)
    wait_until(lambda: (peer.picture() or {}).get("buffers") == [[0, 0, 1, 64, 1]])

    session = peer.session()
    assert session is not None
    assert [event[4] for event in session.events if event[0] == 1] == [told]
    assert client.stats().dropped == 0
