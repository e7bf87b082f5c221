"""A program on a mesh: loaded once, dispatched many times, destroyed."""

from __future__ import annotations

from ttmem.events import BinaryStatus, KernelType, MemoryKind
from ttmem.model.circular_buffers import BufferKind, L1Layout, ProgramBuffer
from ttmem.model.core_ranges import CoreType, num_cores
from ttmem.model.errors import BadMesh, ClashFault, FailedRequest, RuntimeFault
from ttmem.model.mesh import Mesh, SimulatedBuffer, create_buffer
from ttmem.model.program import SimulatedProgram
from ttmem.model.slot_layout import ProgramLayout

BINARY_PAGE = 2048
BINARIES = "program_cache: kernel binaries"
MOST_KERNELS = 1 << 12  # of one program: kernels are numbered within their program


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
