"""Meshes: several devices with one allocator; the buffers on them, and the programs loaded on them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from itertools import count
from reprlib import repr as short_repr

from ttmem.client.devices import ReportedBuffer, ReportedMesh
from ttmem.client.tracker import GraphTracker
from ttmem.events import BinaryStatus, KernelType, MemoryKind
from ttmem.hw import Grid
from ttmem.model.allocator import Allocator, MemoryView
from ttmem.model.circular_buffers import BufferKind, L1Layout, ProgramBuffer
from ttmem.model.core_ranges import CoreType, num_cores
from ttmem.model.device import SimulatedDevice
from ttmem.model.errors import (
    BadMesh,
    ClashFault,
    DoubleFree,
    FailedRequest,
    OutOfMemory,
    RuntimeFault,
    UseAfterClose,
)
from ttmem.model.layouts import INTERLEAVED, Layout
from ttmem.model.program import SimulatedProgram
from ttmem.model.slot_layout import ProgramLayout

MOST_WARNINGS = 100  # warnings kept; `allocations_during_trace` counts all

BINARY_PAGE = 2048
BINARIES = "program_cache: kernel binaries"
MOST_KERNELS = 1 << 12  # of one program: kernels are numbered within their program

_numbers = count(1)  # of buffers, process-wide, like the runtime's unique ids


class Mesh:
    """Equal devices with one allocator: what the mesh allocates is at that address on each.

    Hold `lock` through every operation. `target` is what reports name: the client knows it at once.
    """

    def __init__(
        self,
        shape: tuple[int, int],
        devices: Sequence[SimulatedDevice],
        *,
        tracker: GraphTracker | None = None,
        mock: bool = False,
    ) -> None:
        self.shape = shape
        self.spec = devices[0].spec
        self.allocator = Allocator(self.spec)
        self.tracker = GraphTracker.instance() if tracker is None else tracker
        self.mock = mock
        self.lock = threading.RLock()
        self.target = ReportedMesh(devices)
        self.buffers: dict[int, SimulatedBuffer] = {}  # allocated ones, by id
        self.workloads: dict[int, MeshWorkload] = {}  # loaded ones, by program
        self.is_open = True
        self.on_close: list[Callable[[], object]] = []  # the latest is called first
        self.on_failure: Callable[[FailedRequest], object] = lambda failed: None
        self.live_traces = 0
        self.allocations_during_trace = 0
        self.warnings: list[str] = []
        self._devices = tuple(devices)
        for device in devices:
            if device.declaration is not None:
                self.tracker.declare_device(device.declaration)

    def get_devices(self) -> list[SimulatedDevice]:
        """The chips, row by row."""
        return list(self._devices)

    def get_device_ids(self) -> list[int]:
        return [device.logical_id for device in self._devices]

    def get_num_devices(self) -> int:
        return len(self._devices)

    def compute_with_storage_grid_size(self) -> Grid:
        """The compute cores of each device, each with one L1 bank."""
        return self.spec.grid

    def memory_view(self, kind: MemoryKind) -> MemoryView:
        """One kind of memory; the same on each device."""
        with self.lock:
            self.check_open()
            return self.allocator.memory_view(kind)

    def check_open(self) -> None:
        """UseAfterClose if it is not."""
        if not self.is_open:
            raise UseAfterClose(repr(self))

    def note_allocation_in_trace(self, buffer: SimulatedBuffer) -> None:
        """A replay may overwrite this buffer, which did not exist when the trace was captured."""
        self.allocations_during_trace += 1
        if len(self.warnings) < MOST_WARNINGS:
            self.warnings.append(
                "Allocating device buffers is unsafe due to the existence of an active trace: "
                f"buffer {buffer.id} ({buffer.size} B {buffer.kind.name} at {buffer.address}) "
                "may be corrupted once a trace is executed"
            )

    def close(self) -> None:
        """Closes everything that uses the mesh, then reports and frees what is still allocated.

        The runtime frees these without reporting it, but nothing stays allocated on a closed device.
        """
        with self.lock, ExitStack() as ending:
            if not self.is_open:
                return
            ending.callback(self._release)
            for hook in self.on_close:
                ending.callback(hook)
            self.on_close = []

    def __repr__(self) -> str:
        rows, columns = self.shape
        devices = short_repr(self.get_device_ids())
        return f"{type(self).__name__}({rows}x{columns} {self.spec.board}, devices {devices})"

    def _release(self) -> None:
        for workload in list(self.workloads.values()):
            workload.destroy()
        for buffer in list(self.buffers.values()):
            buffer.deallocate()
        self.live_traces = 0
        self.is_open = False


class SimulatedBuffer(ReportedBuffer):
    """One block at the same address in every bank of every device of the mesh."""

    # Two buffers are never equal, so they can be in sets; the reported record compares by value.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __init__(
        self,
        mesh: Mesh,
        size: int,
        page_size: int,
        kind: MemoryKind,
        layout: Layout,
        site: str | None,
    ) -> None:
        super().__init__(next(_numbers), size, kind, mesh.target, site=site)
        self.mesh = mesh
        self.page_size = page_size
        self.layout = layout
        self.block = 0  # bytes in each bank
        self.is_allocated = True

    def deallocate(self) -> None:
        """Reports, then frees, as the runtime does."""
        mesh = self.mesh
        with mesh.lock:
            mesh.check_open()
            if not self.is_allocated:
                raise DoubleFree(self.address, self.id)
            self.is_allocated = False
            if self.size:
                mesh.tracker.track_deallocate(self)
                mesh.allocator.free(self.kind, self.address)
                del mesh.buffers[self.id]

    def __repr__(self) -> str:
        state = "" if self.is_allocated else ", freed"
        return f"Buffer({self.id}, {self.kind.name}, {self.size} B at {self.address}{state})"


def create_buffer(
    mesh: Mesh,
    size: int,
    page_size: int,
    kind: MemoryKind,
    layout: Layout = INTERLEAVED,
    *,
    bottom_up: bool | None = None,
    site: str | None = None,
) -> SimulatedBuffer:
    """A buffer of `size` bytes on each device. An empty one occupies nothing and is not reported."""
    with mesh.lock:
        mesh.check_open()
        if size == 0:
            return SimulatedBuffer(mesh, size, page_size, kind, layout, site)
        sizing = mesh.allocator.size_buffer(kind, size, page_size, layout)
        buffer = SimulatedBuffer(mesh, size, page_size, kind, layout, site)
        try:
            buffer.address = mesh.allocator.allocate(kind, sizing, bottom_up)
        except OutOfMemory as fault:
            mesh.on_failure(FailedRequest(kind, size, str(fault), site))
            raise
        buffer.block, buffer.reserved = sizing.block, sizing.reserved
        mesh.buffers[buffer.id] = buffer
        # The runtime declares allocation safe again while it stores a trace.
        if mesh.live_traces and kind is not MemoryKind.TRACE:
            mesh.note_allocation_in_trace(buffer)
        mesh.tracker.track_allocate(buffer)
        return buffer


class MeshWorkload:
    """One program for every device of a mesh. It reports each step when the runtime takes it."""

    def __init__(self, program: SimulatedProgram) -> None:
        self.program = program
        self.status = BinaryStatus.NOT_SENT
        self._mesh: Mesh | None = None
        self._binaries: SimulatedBuffer | None = None
        self._placed: L1Layout | None = None  # the circular buffers that were reported
        self._reported: list[ProgramBuffer] = []
        self._loaded = False

    @property
    def id(self) -> int:
        return self.program.id

    def prepare(self, mesh: Mesh) -> ProgramLayout:
        """Compiles, places circular buffers, checks them against L1 buffers, finalizes, and reports what is new.

        The check runs at every enqueue. A program that fails it has reported nothing.
        """
        if self._mesh not in (None, mesh):
            raise BadMesh(f"program {self.id} was enqueued on another mesh before")
        program = self.program
        program.compile()
        program.allocate_circular_buffers()
        assert program.l1 is not None
        lowest = mesh.allocator.lowest_occupied_l1_address()
        try:
            program.l1.check_clash(lowest, program.spec.l1_per_core, self.id)
        except ClashFault as fault:
            mesh.on_failure(FailedRequest(MemoryKind.L1, 0, str(fault), program_id=self.id))
            raise
        layout = program.finalize_offsets(mock=mesh.mock)
        if self._mesh is None:
            self._mesh = mesh
            mesh.workloads[self.id] = self
        if self._placed is not program.l1:
            self._report_circular_buffers(mesh)
            self._placed = program.l1
        if not self._loaded:
            self._report_kernels(mesh)
            self._loaded = True
        return layout

    def load_binaries(self, mesh: Mesh, size: int) -> None:
        """From the first enqueue on, fast dispatch keeps a copy at the top of DRAM."""
        if self._binaries is None and size:
            self._binaries = create_buffer(
                mesh, size, BINARY_PAGE, MemoryKind.DRAM, bottom_up=False, site=BINARIES
            )
        self.set_status(mesh, BinaryStatus.IN_FLIGHT)

    def set_status(self, mesh: Mesh, status: BinaryStatus) -> None:
        """NotSent, InFlight or Committed, for the whole mesh."""
        self.status = status
        mesh.tracker.track_binary_status(self.id, mesh.target, status)

    def destroy(self) -> None:
        """Frees circular buffers, kernels and the copy in DRAM, like the runtime's destructor."""
        mesh, self._mesh = self._mesh, None
        if mesh is None:
            return
        with mesh.lock:
            mesh.workloads.pop(self.id, None)
            mesh.tracker.track_program_destroy(self.id, mesh.target)
            if self._binaries is not None and self._binaries.is_allocated:
                self._binaries.deallocate()

    def _report_circular_buffers(self, mesh: Mesh) -> None:
        """A changed layout replaces the previous one."""
        tracker, target = mesh.tracker, mesh.target
        for old in self._reported:
            tracker.track_deallocate_cb(
                target, old.address or 0, old.size, old.cores, self.id, _is_dataflow(old)
            )
        self._reported = []
        for buffer in self.program.buffers:
            if buffer.alias_of is not None:
                continue  # shares the memory of another
            if not buffer.is_global:
                self._reported.append(_copy(buffer))
            tracker.track_allocate_cb(
                buffer.cores,
                buffer.address or 0,
                buffer.size,
                buffer.is_global,
                target,
                self.id,
                _is_dataflow(buffer),
            )

    def _report_kernels(self, mesh: Mesh) -> None:
        """Each kernel has its own binary and its own cores."""
        if len(self.program.kernels) > MOST_KERNELS:
            raise RuntimeFault(f"program {self.id} has more than {MOST_KERNELS} kernels")
        for number, kernel in enumerate(self.program.kernels):
            on_grid = kernel.core_type is CoreType.TENSIX
            application = self.program.kernel_type is KernelType.APPLICATION
            mesh.tracker.track_kernel_load(
                kernel.binary_bytes,
                self.id * MOST_KERNELS + number,
                mesh.target,
                self.program.kernel_type,
                num_cores(kernel.cores),
                program_id=self.id,
                name=kernel.name,
                content_id=kernel.content_id,
                cores=kernel.cores if on_grid and application else None,
            )


def _is_dataflow(buffer: ProgramBuffer) -> bool:
    return buffer.kind is not BufferKind.CIRCULAR


def _copy(buffer: ProgramBuffer) -> ProgramBuffer:
    return ProgramBuffer(buffer.kind, buffer.cores, buffer.size, address=buffer.address)
