"""A workload on a mesh of its own, whose story is written down."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from random import Random

from ttmem.client import Buffer, GraphTracker
from ttmem.client.devices import DeviceLike, device_numbers
from ttmem.events import DeviceDeclaration, MemoryKind
from ttmem.hw import DeviceSpec, device_spec
from ttmem.model import MeshDevice, open_mesh_device
from ttmem.model.circular_buffers import union_bytes
from ttmem.model.core_ranges import CoreRange, CoreType, whole_grid
from ttmem.model.kernels import SimulatedKernel
from ttmem.model.program import SimulatedProgram
from ttmem.model.slot_layout import ProgramLayout
from ttmem.model.workloads import SCALES, Steps, workload

SMALL = SCALES["small"]


class RecordingTracker(GraphTracker):
    """Devices, and buffers with the chips that they are on."""

    def __init__(self) -> None:  # no client: nothing is sent
        self.enabled = self.kernel_backtrace = False
        self.declared: list[DeviceDeclaration] = []
        self.events: list[tuple[str, int, int, int, int, tuple[int, ...]]] = []

    def declare_device(self, declaration: DeviceDeclaration) -> None:
        self.declared.append(declaration)

    def track_allocate(self, buffer: Buffer) -> None:
        self._write("allocate", buffer)

    def track_deallocate(self, buffer: Buffer) -> None:
        self._write("deallocate", buffer)

    def live(self) -> set[int]:
        """The ids of what is allocated and not freed."""
        ids: set[int] = set()
        for what, number, *_ in self.events:
            (ids.add if what == "allocate" else ids.remove)(number)
        return ids

    def _write(self, what: str, buffer: Buffer) -> None:
        chips = device_numbers(buffer.device)
        self.events.append((what, buffer.id, buffer.address, buffer.size, buffer.reserved, chips))


class CountingTracker(RecordingTracker):
    """Counts dispatches too."""

    def __init__(self) -> None:
        super().__init__()
        self.dispatches = 0

    def track_program_dispatch(
        self,
        program_id: int,
        device: DeviceLike,
        *,
        cache_hit: bool | None = None,
        cores: object = None,
    ) -> None:
        self.dispatches += 1


class Running:
    """A workload on its own mesh, a few steps at a time."""

    def __init__(self, name: str, seed: int = 1, trace_region_size: int | None = None) -> None:
        found = workload(name)
        if trace_region_size is not None:
            found = replace(found, trace_region_size=trace_region_size)
        self.tracker = CountingTracker()
        self.mesh: MeshDevice = open_mesh_device(
            found.mesh,
            board=found.board,
            l1_small_size=found.l1_small_size,
            trace_region_size=found.trace_region_size,
            tracker=self.tracker,
        )
        self._steps: Steps = found.run(self.mesh, Random(seed), SMALL)

    def go(self, steps: int) -> list[str]:
        """What it had to say."""
        return [news for news in islice(self._steps, steps) if news is not None]

    def allocated(self, kind: MemoryKind) -> int:
        return self.mesh.memory_view(kind).total_bytes_allocated_per_bank

    @property
    def entries(self) -> int:
        return self.mesh.num_program_cache_entries()

    @property
    def cb_cached(self) -> int:
        layouts = [workload.program.l1 for workload in self.mesh.workloads.values()]
        return union_bytes(layout.regions_per_core() for layout in layouts if layout is not None)

    def story(self) -> tuple[object, ...]:
        """Everything but the numbers of buffers and programs, which a process counts on."""
        cache, ring = self.mesh.program_cache, self.mesh.command_queue().ring
        buffers = [(what, *rest) for what, _, *rest in self.tracker.events]
        counters = (cache.hits, cache.misses, self.entries, self.tracker.dispatches)
        return buffers, counters, (ring.occupied, ring.wraps, ring.syncs)


# -- Small programs for the tests


TILE = 2048
P150 = device_spec("p150")
N150 = device_spec("n150")
GRID = whole_grid(P150.grid)
ETH = (CoreRange(0, 0, 0, 15),)


def kernel(name: str, *packed: int, cores: tuple[CoreRange, ...] = GRID) -> SimulatedKernel:
    """On Tensix cores, with these packed sizes."""
    return SimulatedKernel(name, CoreType.TENSIX, cores, packed)


def finalized(program: SimulatedProgram) -> ProgramLayout:
    """The layout of its config slot."""
    program.compile()
    return program.finalize_offsets()


def eltwise(
    spec: DeviceSpec, tiles: int = 6, name: str = "add", text: int = 1392
) -> SimulatedProgram:
    """Reader, writer and compute on the whole grid, and circular buffers of so many tiles."""
    cores = whole_grid(spec.grid)
    program = SimulatedProgram(spec)
    program.add_kernel(SimulatedKernel(f"{name}_reader", CoreType.TENSIX, cores, (900,), 8))
    program.add_kernel(SimulatedKernel(f"{name}_writer", CoreType.TENSIX, cores, (700,), 4))
    program.add_kernel(SimulatedKernel(f"{name}_compute", CoreType.TENSIX, cores, (text,) * 3, 2))
    program.add_circular_buffer(cores, tiles * TILE)
    return program
