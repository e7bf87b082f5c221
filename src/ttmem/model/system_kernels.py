"""The runtime's own kernels: fabric on Ethernet cores, dispatch on dispatch cores."""

from __future__ import annotations

from ttmem.events import KernelType
from ttmem.hw import Arch, Dispatch
from ttmem.model.core_ranges import CoreRange, CoreRangeSet, CoreType
from ttmem.model.dispatch import launch_program
from ttmem.model.kernels import Kernel
from ttmem.model.mesh import MeshDevice
from ttmem.model.program import Program
from ttmem.model.workload import MeshWorkload

# 56 KiB of fabric, 46 KiB of dispatch. Binaries take pages of 2 KiB in DRAM. In pieces of
# less than a page, their text fits into the small rings of Ethernet cores; 56 KiB in one piece would not.
FABRIC_PIECES = (900,) * 28
DISPATCH_PIECES = (1000,) * 23
ETHERNET_CORES = {Arch.WORMHOLE: 16, Arch.BLACKHOLE: 12}
CORES_PER_QUEUE = 2


def load_system_kernels(mesh: MeshDevice) -> list[MeshWorkload]:
    """Loaded by slow dispatch when the device is opened; they stay until it is closed."""
    loaded = []
    if mesh.get_num_devices() > 1:
        links = (CoreRange(0, 0, ETHERNET_CORES[mesh.spec.arch] - 1, 0),)
        fabric = Kernel("fabric_erisc_router", CoreType.ACTIVE_ETH, links, FABRIC_PIECES)
        loaded.append(_launch(mesh, KernelType.FABRIC, fabric))
    if mesh.spec.dispatch is not Dispatch.SLOW:
        core_type, cores = _dispatch_cores(mesh)
        dispatch = Kernel("cq_dispatch", core_type, cores, DISPATCH_PIECES)
        loaded.append(_launch(mesh, KernelType.DISPATCH, dispatch))
    return loaded


def _launch(mesh: MeshDevice, kind: KernelType, kernel: Kernel) -> MeshWorkload:
    program = Program(mesh.spec, kind)
    program.add_kernel(kernel)
    return launch_program(mesh, program)


def _dispatch_cores(mesh: MeshDevice) -> tuple[CoreType, CoreRangeSet]:
    """Two cores for each command queue, in the row or column that applications do not get."""
    last = CORES_PER_QUEUE * mesh.num_command_queues - 1
    columns, rows = mesh.spec.grid
    if mesh.spec.dispatch is Dispatch.COL:
        return CoreType.TENSIX, (CoreRange(columns, 0, columns, last),)
    if mesh.spec.dispatch is Dispatch.ROW:
        return CoreType.TENSIX, (CoreRange(0, rows, last, rows),)
    return CoreType.IDLE_ETH, (CoreRange(0, 0, last, 0),)
