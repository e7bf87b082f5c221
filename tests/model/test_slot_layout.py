"""The config slot of a program: its sections, their sizes and their order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.model.running import ETH, GRID, N150, P150, finalized, kernel
from ttmem.model.core_ranges import CoreRange, CoreType
from ttmem.model.errors import ProgramTooLarge
from ttmem.model.kernels import SimulatedKernel
from ttmem.model.program import SimulatedProgram
from ttmem.model.ring import ring_sizes
from ttmem.model.slot_layout import Sections


def test_t12_text_is_aligned_to_16_and_binaries_to_pages_of_2048() -> None:
    program = SimulatedProgram(P150)
    for added in (kernel("compute", 1392, 1392, 1392), kernel("read", 900), kernel("write", 700)):
        program.add_kernel(added)

    layout = finalized(program)

    assert (layout.kernel_text_sizes, layout.binary_data_bytes) == ((5792, 0, 0), 10_240)
    assert layout.program_config_sizes == (5792, 0, 0, 1, 0)
    assert layout.num_cores == 110


def test_the_slot_holds_its_sections_in_the_runtimes_order() -> None:
    program = SimulatedProgram(P150)
    reader = program.add_kernel(kernel("read", 900))
    program.add_kernel(kernel("write", 700))
    program.set_runtime_args(reader, 5)
    program.set_common_runtime_args(reader, 1)
    program.add_semaphore(GRID)
    program.add_semaphore(GRID)
    program.add_circular_buffer(GRID, 2048, indices=(0,))
    program.add_circular_buffer(GRID, 2048, indices=(16,), remote_indices=(63,), address=1_400_000)

    (slot, *_) = finalized(program).slots

    assert slot.sizes == Sections(32, 16, 32, 17 * 16 + 16, 0, 912 + 704)
    assert slot.offsets == Sections(0, 32, 48, 80, 368, 368)
    assert slot.size == 368 + 1616


def test_dataflow_buffers_take_one_config_each() -> None:
    program = SimulatedProgram(P150)
    program.add_kernel(kernel("read", 16))
    program.add_dataflow_buffer(GRID, 64)
    program.add_dataflow_buffer(GRID, 64)

    assert finalized(program).slots[0].sizes == Sections(0, 0, 0, 0, 32, 16)


def test_a_slot_fits_the_largest_group_of_kernels() -> None:
    program = SimulatedProgram(P150)
    program.add_kernel(kernel("everywhere", 100))
    program.add_kernel(kernel("left", 1000, cores=(CoreRange(0, 0, 4, 9),)))
    program.add_kernel(kernel("right", 200, cores=(CoreRange(5, 0, 10, 9),)))

    assert finalized(program).kernel_text_sizes[0] == 112 + 1008


def test_arguments_count_where_they_were_set() -> None:
    program = SimulatedProgram(P150)
    left = CoreRange(0, 0, 4, 9)
    first = program.add_kernel(kernel("everywhere", 16))
    program.add_kernel(kernel("left", 16, cores=(left,)))
    program.set_runtime_args(first, 40, (left,))
    program.set_runtime_args(first, 4, (CoreRange(5, 0, 10, 9),))

    assert finalized(program).slots[0].sizes.unique_args == 160


def test_ethernet_semaphores_take_space_on_active_and_idle_cores() -> None:
    program = SimulatedProgram(P150)
    program.add_semaphore((CoreRange(0, 0, 0, 3),), CoreType.IDLE_ETH)

    assert finalized(program).program_config_sizes == (0, 16, 16, 0, 0)


def test_text_on_active_ethernet_is_in_the_slot_on_blackhole_only() -> None:
    sizes = []
    for spec in (P150, N150):
        program = SimulatedProgram(spec)
        program.add_kernel(SimulatedKernel("eth", CoreType.ACTIVE_ETH, ETH, (600,)))
        sizes.append(finalized(program).program_config_sizes[CoreType.ACTIVE_ETH])

    assert sizes == [608, 0]


def test_a_program_larger_than_the_ring_is_refused() -> None:
    program = SimulatedProgram(P150)
    program.add_kernel(kernel("huge", 70_657))
    program.compile()

    with pytest.raises(ProgramTooLarge, match=r"Program size \(70672.*\(70656.*TENSIX"):
        program.finalize_offsets()


RANGES = st.builds(lambda x, y: (CoreRange(0, 0, x, y),), st.integers(0, 10), st.integers(0, 9))
KERNELS = st.tuples(
    RANGES,
    st.lists(st.integers(1, 3000), min_size=1, max_size=3),
    st.integers(0, 60),
    st.integers(0, 60),
)


@given(st.lists(KERNELS, max_size=4), st.integers(0, 16), st.integers(0, 32))
def test_sections_follow_each_other_aligned_and_fit_the_ring(
    kernels: list[tuple[tuple[CoreRange, ...], list[int], int, int]], semaphores: int, buffers: int
) -> None:
    program = SimulatedProgram(P150)
    for cores, packed, unique, common in kernels:
        program.add_kernel(
            SimulatedKernel("k", CoreType.TENSIX, cores, tuple(packed), unique, common)
        )
    for _ in range(semaphores):
        program.add_semaphore(GRID)
    for _ in range(buffers):
        program.add_circular_buffer(GRID, 64)

    layout = finalized(program)

    for slot, limit in zip(layout.slots, ring_sizes(P150), strict=True):
        assert all(offset % 16 == 0 for offset in slot.offsets)
        assert list(slot.offsets) == sorted(slot.offsets)
        assert slot.size <= limit
    assert layout.binary_data_bytes % 2048 == 0
