"""The workloads: each is repeatable and does what its sentence says."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.model.running import SMALL, Running
from ttmem.errors import BadInput
from ttmem.events import MemoryKind
from ttmem.model.workloads import WORKLOADS, workload
from ttmem.model.workloads.applications import kept_shape, warm_up_steps


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_same_seed_gives_the_same_run(name: str) -> None:
    first, second = Running(name, seed=7), Running(name, seed=7)
    said = first.go(120), second.go(120)

    assert len(said[0]) == len(said[1])
    assert first.story() == second.story()


@pytest.mark.parametrize("name", ["transformer", "serving", "clash"])
def test_another_seed_gives_another_run(name: str) -> None:
    first, second = Running(name, seed=7), Running(name, seed=8)
    first.go(120)
    second.go(120)

    assert first.story() != second.story()


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_closed_mesh_holds_nothing_wherever_it_stopped(name: str) -> None:
    running = Running(name)
    running.go(31)
    running.mesh.close()

    assert running.tracker.live() == set()


@pytest.mark.parametrize("region", [0, 64 << 20])
def test_after_the_warm_up_of_a_transformer_only_dispatches_grow(region: int) -> None:
    running = Running("transformer", trace_region_size=region)
    running.go(SMALL.layers)
    assert running.entries == 0
    seen = []
    for _ in range(5):
        running.go(1)
        seen.append((running.entries, running.cb_cached))
    warm = (seen[-1], running.tracker.dispatches)
    running.go(200)

    assert seen == sorted(set(seen)), "both grow while shapes are new"
    assert warm_up_steps(SMALL) == SMALL.layers + 5
    assert (running.entries, running.cb_cached) == warm[0]
    assert running.tracker.dispatches > 10 * warm[1]
    assert running.mesh.allocations_during_trace == 0


def test_a_transformer_decodes_from_a_trace_if_there_is_a_region() -> None:
    running = Running("transformer")
    running.go(warm_up_steps(SMALL) + 2)
    traced = running.allocated(MemoryKind.TRACE)

    assert (traced > 0, running.mesh.live_traces) == (True, 1)


def test_new_shapes_fill_the_program_cache_without_end() -> None:
    running = Running("shapes")
    entries = []
    for _ in range(3):
        running.go(100)
        entries.append(running.entries)

    assert entries == [200, 400, 600]
    assert running.mesh.program_cache.hits == 0


def test_a_leak_keeps_one_tensor_per_step() -> None:
    running = Running("leak")
    running.go(1)
    held = []
    for _ in range(20):
        running.go(1)
        held.append(running.allocated(MemoryKind.DRAM))
    rows, columns = kept_shape(SMALL)
    per_bank = rows * columns * 2 // running.mesh.spec.dram_banks

    assert [later - earlier for earlier, later in pairwise(held)] == [per_bank] * 19


def test_requests_take_and_give_back_their_cache() -> None:
    running = Running("serving")
    held = []
    for _ in range(200):
        running.go(1)
        held.append(running.allocated(MemoryKind.DRAM))
    highest = held.index(max(held))

    assert 10 < highest < 100
    assert min(held[highest:]) < max(held) // 2


def test_images_are_in_sharded_l1_and_halos_in_l1_small() -> None:
    running = Running("cnn")
    running.go(40)
    warm = running.entries
    running.go(100)

    assert running.allocated(MemoryKind.L1) > 0
    assert 0 < running.allocated(MemoryKind.L1_SMALL) <= running.mesh.spec.l1_small_bank_size
    assert running.entries == warm


def test_a_clash_is_reported_with_the_runtimes_message_and_the_workload_continues() -> None:
    running = Running("clash")
    said = running.go(100)
    entries, held = running.entries, running.allocated(MemoryKind.L1)

    assert len(said) > 3
    assert all("clash with L1 buffers on core range" in news for news in said)
    assert (entries, held) == (
        1,
        sum(b.block for b in running.mesh.buffers.values() if b.kind is MemoryKind.L1),
    )


def test_fragmented_memory_fails_with_half_of_it_free() -> None:
    running = Running("oom-fragmented")
    said = running.go(17)
    view = running.mesh.memory_view(MemoryKind.DRAM)
    running.go(1)

    assert "Out of Memory: Not enough space to allocate" in said[0]
    assert view.total_bytes_free_per_bank >= 2 * (view.total_bytes_per_bank // 16)
    assert view.largest_contiguous_bytes_free_per_bank < 2 * (view.total_bytes_per_bank // 16)
    assert running.allocated(MemoryKind.DRAM) == 0


def test_a_galaxy_has_32_chips_that_all_take_part() -> None:
    running = Running("galaxy")
    running.go(10)
    chips = {event[-1] for event in running.tracker.events}

    assert chips == {tuple(range(32))}


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(
        BadInput, match=r"unknown workload 'nope'; use one of: transformer, .*galaxy"
    ):
        workload("nope")
