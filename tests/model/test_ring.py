"""The kernel-config ring, with the facts sheet's test vectors and the laws that it must keep."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttmem.errors import BadInput
from ttmem.hw import device_spec
from ttmem.model.core_ranges import CoreType
from ttmem.model.ring import Entry, KernelConfigRing, Slot, ring_bases, ring_sizes

P150 = device_spec("p150")
SIZE = 70_656
WORKERS = 110


def tensix(size: int) -> tuple[int, ...]:
    return (size, 0, 0, 1, 0)


def launch(ring: KernelConfigRing, size: int, in_flight: bool = False) -> Slot:
    return ring.launch(tensix(size), WORKERS, in_flight)


def test_the_rings_of_a_p150_are_those_of_the_runtime() -> None:
    assert (ring_sizes(P150), ring_bases(P150)) == (
        (70_656, 26_624, 26_624),
        (41_088, 62_256, 64_944),
    )


def test_t9_the_third_of_three_large_launches_wraps_and_waits_for_the_first() -> None:
    ring = KernelConfigRing(ring_sizes(P150), ring_bases(P150))

    slots = [launch(ring, 30_000) for _ in range(3)]

    assert [slot.addresses[0] - 41_088 for slot in slots] == [0, 30_000, 0]
    assert [slot.sync_count for slot in slots] == [None, None, WORKERS]
    assert (ring.wraps, ring.syncs, ring.occupied, ring.live_entries) == (1, 1, 60_000, 2)


def test_t10_the_eighth_small_launch_finds_the_table_full() -> None:
    ring = KernelConfigRing(ring_sizes(P150))

    slots = [launch(ring, 16) for _ in range(9)]

    assert [slot.sync_count for slot in slots] == [None] * 7 + [WORKERS, 2 * WORKERS]
    assert [slot.addresses[0] for slot in slots] == [16 * n for n in range(9)]
    assert (ring.live_entries, ring.live_messages, ring.wraps) == (7, 7, 0)


def test_t11_a_launch_in_flight_frees_the_entire_ring_first() -> None:
    ring = KernelConfigRing(ring_sizes(P150))
    launch(ring, 1000)
    launch(ring, 1000)

    slot = launch(ring, 1000, in_flight=True)

    assert slot == Slot((2000, 0, 0), 2 * WORKERS, True, False)
    assert ring.live_slots() == (Entry(2000, 1000, 3 * WORKERS),)


def test_arguments_go_ahead_when_only_launch_messages_are_short() -> None:
    ring = KernelConfigRing(ring_sizes(P150))
    for _ in range(7):
        launch(ring, 0)

    slot = launch(ring, 16)

    assert (slot.sync_count, slot.stall_first, slot.stall_before_program) == (WORKERS, False, True)


def test_active_ethernet_is_always_at_its_base_and_waits_for_the_one_before() -> None:
    ring = KernelConfigRing(ring_sizes(P150))
    sizes = (0, 100, 0, 0, 1)

    slots = [ring.launch(sizes, 12, False) for _ in range(2)]

    assert [(slot.addresses[CoreType.ACTIVE_ETH], slot.sync_count) for slot in slots] == [
        (0, None),
        (0, 12),
    ]


def test_after_a_trace_the_next_launch_waits_and_starts_at_the_base() -> None:
    ring = KernelConfigRing(ring_sizes(P150))
    launch(ring, 500)
    ring.mark_completely_full(40)

    occupied = ring.occupied
    slot = launch(ring, 500)

    assert (occupied, slot.addresses[0], slot.sync_count, ring.occupied) == (SIZE, 0, 40, 500)


def test_a_slot_larger_than_the_ring_is_refused() -> None:
    with pytest.raises(BadInput, match="70657 bytes do not fit"):
        launch(KernelConfigRing(ring_sizes(P150)), SIZE + 1)


SIZES = st.one_of(st.integers(0, SIZE), st.integers(0, 4096), st.sampled_from([SIZE, SIZE // 2]))
LAUNCHES = st.lists(st.tuples(SIZES, st.integers(0, 640), st.booleans()), max_size=60)


@given(LAUNCHES)
def test_live_slots_never_overlap_nor_exceed_the_ring(
    launches: list[tuple[int, int, bool]],
) -> None:
    ring = KernelConfigRing((SIZE, 640, 25_600))
    for size, eth, in_flight in launches:
        ring.launch((size, eth, 0, 1, int(eth > 0)), WORKERS, in_flight)

        slots = sorted(ring.live_slots())
        assert all(a.address + a.size <= b.address for a, b in itertools.pairwise(slots))
        assert all(slot.address >= 0 and slot.address + slot.size <= SIZE for slot in slots)
        assert ring.occupied <= SIZE
        assert ring.live_messages <= 7
        assert len(ring.live_slots(-1)) <= 1


@given(LAUNCHES)
def test_a_slot_is_overwritten_only_after_its_sync(launches: list[tuple[int, int, bool]]) -> None:
    ring = KernelConfigRing((SIZE, 640, 25_600))
    done_at: list[Entry] = []
    waited = 0
    for size, eth, in_flight in launches:
        slot = ring.launch((size, eth, 0, 1, int(eth > 0)), WORKERS, in_flight)
        waited = max(waited, slot.sync_count or 0)

        start, end = slot.addresses[0], slot.addresses[0] + size
        running = [slot for slot in done_at if slot.sync_count > waited]
        assert all(end <= slot.address or slot.address + slot.size <= start for slot in running)
        if size:
            done_at.append(Entry(start, size, ring.expected_workers))
