"""A mock mesh leaves out what the runtime leaves out on mock devices, and nothing else."""

from __future__ import annotations

from tests.model.running import RecordingTracker
from ttmem.events import MemoryKind
from ttmem.model import (
    MeshDevice,
    MeshWorkload,
    SimulatedProgram,
    enqueue_mesh_workload,
    open_mesh_device,
)
from ttmem.model.core_ranges import CoreType, whole_grid
from ttmem.model.kernels import SimulatedKernel


def launched(*, mock: bool) -> tuple[MeshDevice, SimulatedProgram]:
    mesh = open_mesh_device((1, 2), board="p150", mock=mock, tracker=RecordingTracker())
    program = SimulatedProgram(mesh.spec)
    cores = whole_grid(mesh.spec.grid)
    program.add_kernel(SimulatedKernel("reader", CoreType.TENSIX, cores, (1_000,), 12, 4))
    program.add_circular_buffer(cores, 4_096)
    enqueue_mesh_workload(mesh, MeshWorkload(program))
    return mesh, program


def test_no_binaries_lie_in_dram() -> None:
    used = [
        launched(mock=mock)[0].memory_view(MemoryKind.DRAM).total_bytes_allocated_per_bank
        for mock in (False, True)
    ]

    assert used == [2_048, 0]


def test_a_slot_of_the_ring_is_smaller_by_the_text() -> None:
    real, mock = (launched(mock=mock)[1].finalize_offsets() for mock in (False, True))

    assert real.program_config_sizes[0] - mock.program_config_sizes[0] == 1_008
    assert (real.kernel_text_sizes[0], mock.kernel_text_sizes[0]) == (1_008, 0)
    assert mock.binary_data_bytes == 0


def test_no_kernels_of_fabric_or_dispatch_are_loaded() -> None:
    loaded = [len(launched(mock=mock)[0].workloads) for mock in (False, True)]

    assert loaded == [3, 1]


def test_circular_buffers_lie_where_they_always_do() -> None:
    (_, real), (_, mock) = launched(mock=False), launched(mock=True)

    assert [buffer.address for buffer in mock.buffers] == [
        buffer.address for buffer in real.buffers
    ]
