"""The buffers that a program declares: added, resized, and refused."""

from __future__ import annotations

import pytest

from ttmem.errors import BadInput
from ttmem.hw import device_spec
from ttmem.model.circular_buffers import (
    ProgramFault,
)
from ttmem.model.core_ranges import CoreRange, whole_grid
from ttmem.model.errors import OutsideGrid
from ttmem.model.program import SimulatedProgram

P150 = device_spec("p150")
BASE = 111_744
GRID = whole_grid(P150.grid)
ONE = (CoreRange(0, 0, 0, 0),)


def test_circular_and_dataflow_buffers_do_not_mix() -> None:
    program = SimulatedProgram(P150)
    program.add_dataflow_buffer(ONE, 64)

    with pytest.raises(ProgramFault, match="already has dataflow buffers"):
        program.add_circular_buffer(ONE, 64)


def test_resizing_a_local_buffer_needs_a_new_layout() -> None:
    program = SimulatedProgram(P150)
    first = program.add_circular_buffer(ONE, 64)
    program.add_circular_buffer(ONE, 64)
    steps = [program.allocate_circular_buffers(), program.allocate_circular_buffers()]

    program.update_circular_buffer_total_size(first, 4096)

    assert [*steps, program.allocate_circular_buffers()] == [True, False, True]
    assert [buffer.address for buffer in program.buffers] == [BASE, BASE + 4096]


def test_a_raised_base_moves_everything() -> None:
    program = SimulatedProgram(P150)
    program.add_circular_buffer(ONE, 64)

    program.allocate_circular_buffers(base=BASE + 100)

    assert program.buffers[0].address == BASE + 128


def test_an_index_is_taken_once_per_core() -> None:
    program = SimulatedProgram(P150)
    program.add_circular_buffer(GRID, 64, indices=(0, 16))

    with pytest.raises(ProgramFault, match="index 16, another"):
        program.add_circular_buffer(ONE, 64, indices=(16,))
    with pytest.raises(ProgramFault, match="between 0 and 63"):
        program.add_circular_buffer(ONE, 64, indices=(64,))


def test_impossible_buffers_are_refused() -> None:
    program = SimulatedProgram(P150)

    with pytest.raises(BadInput, match="1 or more bytes"):
        program.add_circular_buffer(ONE, 0)
    with pytest.raises(OutsideGrid):
        program.add_circular_buffer((CoreRange(0, 0, 11, 9),), 64)
    assert program.buffers == []
