"""`open_device` and `open_mesh_device`, as in ttnn."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, TypedDict

from ttmem.client.tracker import GraphTracker
from ttmem.events import KernelType
from ttmem.hw import NEWEST, Arch, Board, Dispatch, device_spec
from ttmem.hw import board as board_by_name
from ttmem.hw.descriptor import Cluster
from ttmem.model.core_ranges import CoreRange, CoreRangeSet, CoreType
from ttmem.model.device import (
    ClusterLike,
    cluster_from,
    described_devices,
    made_up_devices,
)
from ttmem.model.dispatch import MeshDevice, launch_program
from ttmem.model.errors import BadMesh
from ttmem.model.kernels import SimulatedKernel
from ttmem.model.mesh import MeshWorkload
from ttmem.model.program import SimulatedProgram

if TYPE_CHECKING:
    from typing_extensions import Unpack

# The runtime's own kernels: fabric on Ethernet cores, dispatch on dispatch cores.


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
        fabric = SimulatedKernel("fabric_erisc_router", CoreType.ACTIVE_ETH, links, FABRIC_PIECES)
        loaded.append(_launch(mesh, KernelType.FABRIC, fabric))
    if mesh.spec.dispatch is not Dispatch.SLOW:
        core_type, cores = _dispatch_cores(mesh)
        dispatch = SimulatedKernel("cq_dispatch", core_type, cores, DISPATCH_PIECES)
        loaded.append(_launch(mesh, KernelType.DISPATCH, dispatch))
    return loaded


def _launch(mesh: MeshDevice, kind: KernelType, kernel: SimulatedKernel) -> MeshWorkload:
    program = SimulatedProgram(mesh.spec, kind)
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


SMALLEST_SYSTEM = 8  # chips: a T3K is one system, while cards may be several
MOST_DEVICES = 1024  # of invented cards; far more than any system has


class Opening(TypedDict, total=False):
    """What `open_device` takes like `open_mesh_device`."""

    board: str
    cluster: ClusterLike | None
    dispatch: Dispatch | str | None
    l1_small_size: int
    trace_region_size: int
    worker_l1_size: int
    num_command_queues: int
    version: str
    mock: bool
    tracker: GraphTracker | None


def open_device(device_id: int = 0, **options: Unpack[Opening]) -> MeshDevice:
    """One device, which is a 1x1 mesh, as in ttnn."""
    return open_mesh_device((1, 1), physical_device_ids=[device_id], **options)


def open_mesh_device(
    shape: Sequence[int],
    *,
    board: str = "p150",
    cluster: ClusterLike | None = None,
    physical_device_ids: Sequence[int] = (),
    dispatch: Dispatch | str | None = None,
    l1_small_size: int = 0,
    trace_region_size: int = 0,
    worker_l1_size: int = 0,
    num_command_queues: int = 1,
    version: str = NEWEST,
    mock: bool = False,
    tracker: GraphTracker | None = None,
) -> MeshDevice:
    """A mesh of (rows, columns): the chips of a cluster, or else as many cards of one board as needed.

    With `mock` it leaves out what the runtime leaves out on mock devices: kernel text, its copy in DRAM, and the
    kernels of fabric and dispatch.
    """
    rows, columns = _checked_shape(shape)
    origin = board_by_name(board) if cluster is None else cluster_from(cluster)
    numbers = _device_numbers(rows * columns, physical_device_ids, origin)
    spec_of = partial(
        device_spec,
        dispatch=dispatch,
        version=version,
        l1_small_size=l1_small_size,
        trace_region_size=trace_region_size,
        worker_l1_size=worker_l1_size,
    )
    if isinstance(origin, Board):
        devices = made_up_devices(origin, numbers, spec_of(origin))
    else:
        devices = described_devices(origin, numbers, spec_of)
    mesh = MeshDevice(
        (rows, columns),
        devices,
        tracker=tracker,
        num_command_queues=num_command_queues,
        mock=mock,
    )
    if not mock:
        load_system_kernels(mesh)
    return mesh


def is_system(board: str) -> bool:
    """A T3K or a Galaxy has a fixed number of chips; there can be any number of cards."""
    return board_by_name(board).chips >= SMALLEST_SYSTEM


def _checked_shape(shape: Sequence[int]) -> tuple[int, int]:
    sides = tuple(shape)
    if len(sides) != 2 or not all(type(side) is int and side > 0 for side in sides):
        raise BadMesh(f"a mesh has rows and columns, as (1, 4), not {sides!r:.60}")
    return sides[0], sides[1]


def _device_numbers(count: int, chosen: Sequence[int], origin: Board | Cluster) -> list[int]:
    known: Sequence[int]
    if isinstance(origin, Cluster):
        known = sorted(chip.logical_id for chip in origin.chips)
    else:
        known = range(origin.chips if is_system(origin.name) else MOST_DEVICES)
    available = len(known)
    if count > available:
        raise BadMesh(f"the mesh needs {count} devices, but there are only {available}")
    numbers = list(chosen) or list(known[:count])
    if len(numbers) != count or len(set(numbers)) != count:
        raise BadMesh(f"the mesh needs {count} different devices, not {numbers!r:.60}")
    if isinstance(origin, Board) and not all(0 <= number < available for number in numbers):
        raise BadMesh(f"device ids are 0 to {available - 1}, not {numbers!r:.60}")
    return numbers
