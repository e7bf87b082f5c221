"""Programs: sizes of the original system, and what is refused when."""

from __future__ import annotations

import pytest

from tests.model.running import ETH, GRID, N150, P150, finalized, kernel
from ttmem.errors import BadInput
from ttmem.events import KernelType
from ttmem.model.circular_buffers import ProgramFault
from ttmem.model.core_ranges import CoreRange, CoreType
from ttmem.model.errors import OutsideGrid
from ttmem.model.kernels import SimulatedKernel
from ttmem.model.program import SimulatedProgram


def test_seed_000_the_size_that_runtime_computed_is_0_and_the_binary_is_not() -> None:
    program = SimulatedProgram(P150)
    program.add_kernel(kernel("compute", 1392, 1392, 1392))

    layout = finalized(program)

    assert layout.kernel_bins_size_of_last_core_type == 0
    assert layout.binary_data_bytes == 6144


def test_seed_001_a_fabric_binary_of_56_kib_on_16_ethernet_cores() -> None:
    program = SimulatedProgram(N150, KernelType.FABRIC)
    program.add_kernel(SimulatedKernel("router", CoreType.ACTIVE_ETH, ETH, (56 * 1024,)))

    layout = finalized(program)

    assert layout.binary_data_bytes * layout.num_cores == 896 * 1024
    assert layout.program_config_sizes == (0, 0, 0, 0, 1)


def test_a_content_id_is_the_same_in_every_run() -> None:
    assert kernel("read", 900).content_id == 0xCFF55118F1FD4E6A
    assert kernel("read", 900).content_id != kernel("read", 901).content_id


def test_programs_are_numbered_as_they_are_made() -> None:
    first, second = SimulatedProgram(P150), SimulatedProgram(P150)

    assert second.id == first.id + 1


def test_a_compiled_program_takes_nothing_more() -> None:
    program = SimulatedProgram(P150)
    program.compile()

    with pytest.raises(ProgramFault, match="already compiled program"):
        program.add_kernel(kernel("late", 16))
    with pytest.raises(ProgramFault, match="Cannot add circular buffer"):
        program.add_circular_buffer(GRID, 64)


def test_a_program_is_finalized_after_its_compiling_only() -> None:
    with pytest.raises(ProgramFault, match="not compiled"):
        SimulatedProgram(P150).finalize_offsets()


def test_the_number_of_arguments_is_fixed_by_finalizing() -> None:
    program = SimulatedProgram(P150)
    handle = program.add_kernel(kernel("read", 16))
    program.set_runtime_args(handle, 3)
    finalized(program)
    program.set_runtime_args(handle, 3)

    with pytest.raises(ProgramFault, match="cannot be modified from 3 to 4"):
        program.set_runtime_args(handle, 4)
    with pytest.raises(ProgramFault, match="No kernel with id 9"):
        program.set_runtime_args(9, 4)


def test_only_dispatch_kernels_run_on_dispatch_cores() -> None:
    column = (CoreRange(11, 0, 11, 1),)
    SimulatedProgram(P150, KernelType.DISPATCH).add_kernel(kernel("prefetch", 16, cores=column))

    with pytest.raises(OutsideGrid):
        SimulatedProgram(P150).add_kernel(kernel("read", 16, cores=column))


def test_a_core_has_16_semaphores() -> None:
    program = SimulatedProgram(P150)
    ids = [program.add_semaphore(GRID) for _ in range(16)]

    with pytest.raises(ProgramFault, match="all 16 IDs are in use"):
        program.add_semaphore((CoreRange(0, 0, 0, 0),))
    assert ids == list(range(16))


@pytest.mark.parametrize("packed", [(), (0,), (16, -1)])
def test_a_kernel_without_a_binary_is_refused(packed: tuple[int, ...]) -> None:
    with pytest.raises(BadInput, match="no binary"):
        kernel("empty", *packed)
