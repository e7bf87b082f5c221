"""Where circular buffers lie: the facts sheet's test vectors, and the laws of their placement."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttmem.hw import device_spec
from ttmem.model.circular_buffers import (
    BufferKind,
    L1Layout,
    ProgramBuffer,
    union_bytes,
)
from ttmem.model.core_ranges import CoreRange, cores_of, merge, whole_grid
from ttmem.model.errors import BeyondL1, ClashFault
from ttmem.model.program import SimulatedProgram

P150 = device_spec("p150")
BASE = 111_744
GRID = whole_grid(P150.grid)
ONE = (CoreRange(0, 0, 0, 0),)


def allocated(*sizes: int, cores: tuple[CoreRange, ...] = ONE) -> L1Layout:
    program = SimulatedProgram(P150)
    for size in sizes:
        program.add_circular_buffer(cores, size)
    program.allocate_circular_buffers()
    assert program.l1 is not None
    return program.l1


def layout_of(buffers: Sequence[tuple[tuple[CoreRange, ...], int]]) -> list[ProgramBuffer]:
    placed = [ProgramBuffer(BufferKind.CIRCULAR, cores, size) for cores, size in buffers]
    L1Layout(BASE, 64, placed)
    return placed


def test_t13_a_gap_of_alignment_is_in_no_region() -> None:
    program = SimulatedProgram(P150)
    for size in (2048, 1000, 64):
        program.add_circular_buffer(ONE, size)
    program.allocate_circular_buffers()

    assert [buffer.address for buffer in program.buffers] == [111_744, 113_792, 114_816]
    assert program.l1 is not None
    assert program.l1.regions_per_core() == {(0, 0): ((111_744, 114_792), (114_816, 114_880))}
    assert program.l1.union_bytes == 2048 + 1000 + 64


def test_t14_two_cached_programs_take_the_union_and_not_the_sum() -> None:
    large, small = allocated(150_000 - BASE), allocated(130_000 - BASE)

    total = union_bytes([large.regions_per_core(), small.regions_per_core()])

    assert (large.end_address, small.end_address, total) == (150_000, 130_000, 150_000 - BASE)


def test_t4_a_binary_add_on_all_cores_has_the_total_of_the_mock_run() -> None:
    assert allocated(4096, 4096, 4096, cores=GRID).union_bytes == 1_351_680


def test_a_buffer_on_two_ranges_lies_above_the_higher_one() -> None:
    left, right = CoreRange(0, 0, 0, 0), CoreRange(2, 0, 2, 0)

    placed = layout_of([((left,), 1024), ((left, right), 64)])

    assert [buffer.address for buffer in placed] == [BASE, BASE + 1024]


def test_ranges_that_overlap_in_part_can_collide_as_in_the_runtime() -> None:
    left, right, both = CoreRange(0, 0, 1, 0), CoreRange(2, 0, 3, 0), CoreRange(0, 0, 3, 0)

    placed = layout_of([((left,), 1024), ((right,), 8192), ((both,), 64)])

    assert [buffer.address for buffer in placed] == [BASE, BASE, BASE + 1024]


def test_a_program_from_a_descriptor_keeps_its_ranges_apart() -> None:
    neighbours = (CoreRange(0, 2, 1, 3), CoreRange(0, 0, 1, 1))
    program = SimulatedProgram(P150)

    program.add_circular_buffer(neighbours, 64, merged=False)
    program.add_circular_buffer(neighbours, 64)

    assert [buffer.cores for buffer in program.buffers] == [neighbours, (CoreRange(0, 0, 1, 3),)]


def test_a_global_circular_buffer_takes_its_buffers_address_and_no_region() -> None:
    program = SimulatedProgram(P150)
    program.add_circular_buffer(ONE, 4096, address=1_500_000)
    program.add_circular_buffer(ONE, 64)
    program.allocate_circular_buffers()

    assert [buffer.address for buffer in program.buffers] == [1_500_000, BASE]
    assert program.l1 is not None
    assert program.l1.union_bytes == 64


def test_scratchpads_stack_above_dataflow_buffers_and_aliases_share() -> None:
    program = SimulatedProgram(P150)
    program.add_scratchpad(GRID, 100)
    first = program.add_dataflow_buffer(ONE, 1000)
    program.add_dataflow_buffer(ONE, 1000, alias_of=first)
    program.add_dataflow_buffer(ONE, 64, address=1_400_000)
    program.allocate_circular_buffers()

    addresses = [buffer.address for buffer in program.buffers]

    assert addresses == [BASE + 1024, BASE, BASE, 1_400_000]


def test_the_clash_with_an_l1_buffer_has_the_runtimes_figures() -> None:
    layout = allocated(1024, cores=GRID)
    layout.check_clash(BASE + 1024, P150.l1_per_core, 7)

    with pytest.raises(ClashFault, match=r"program 7 clash.*- 10-9\].* 112767 .* 112768"):
        layout.check_clash(BASE + 1023, P150.l1_per_core, 7)


def test_dataflow_buffers_clash_under_their_own_name() -> None:
    program = SimulatedProgram(P150)
    program.add_dataflow_buffer(ONE, 1024)
    program.allocate_circular_buffers()
    assert program.l1 is not None

    with pytest.raises(ClashFault) as caught:
        program.l1.check_clash(BASE + 1023, P150.l1_per_core, 7)

    assert str(caught.value) == (
        "Statically allocated dataflow buffers in program 7 clash with L1 buffers on core range "
        "[0-0 - 0-0]. L1 buffer allocated at 112767 and static dataflow buffer region ends at 112768"
    )


def test_buffers_beyond_l1_are_refused() -> None:
    with pytest.raises(BeyondL1, match="grow to 1572928 B which is beyond max L1 size of 1572864"):
        allocated(1_461_184).check_clash(None, P150.l1_per_core, 1)


# Ranges that are equal, nested or apart: there the runtime's placement is sound.
COLUMNS = st.builds(lambda x, h: CoreRange(x, 0, x, h), st.integers(0, 4), st.integers(0, 3))
CORES = st.lists(COLUMNS, min_size=1, max_size=3, unique_by=lambda core_range: core_range.x0).map(
    lambda ranges: tuple(sorted(ranges))
)
BUFFERS = st.lists(st.tuples(CORES, st.integers(1, 5000)), min_size=1, max_size=12)


@given(BUFFERS)
def test_buffers_that_share_a_core_never_overlap(
    buffers: list[tuple[tuple[CoreRange, ...], int]],
) -> None:
    placed = layout_of(buffers)

    for index, buffer in enumerate(placed):
        assert buffer.address is not None
        assert buffer.address % 64 == 0
        for other in placed[:index]:
            if cores_of(buffer.cores) & cores_of(other.cores):
                assert other.address is not None
                assert other.address + other.size <= buffer.address


@given(
    st.lists(
        st.tuples(
            st.lists(
                st.builds(
                    lambda x, y, w, h: CoreRange(x, y, x + w, y + h),
                    *[st.integers(0, n) for n in (5, 5, 3, 3)],
                ),
                min_size=1,
                max_size=3,
            ).map(lambda ranges: merge(tuple(ranges))),
            st.integers(1, 5000),
        ),
        min_size=1,
        max_size=12,
    )
)
def test_the_union_is_at_most_what_lies_between_base_and_end(
    buffers: list[tuple[tuple[CoreRange, ...], int]],
) -> None:
    program = SimulatedProgram(P150)
    for cores, size in buffers:
        program.add_circular_buffer(cores, size)
    program.allocate_circular_buffers()

    assert program.l1 is not None
    for regions in program.l1.regions_per_core().values():
        covered = sum(end - start for start, end in regions)
        assert covered <= program.l1.end_address - BASE
