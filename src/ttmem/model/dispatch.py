"""Launching programs: `enqueue_mesh_workload` for fast dispatch, `launch_program` for slow."""

from __future__ import annotations

from ttmem.events import BinaryStatus
from ttmem.hw import Dispatch
from ttmem.model.errors import RuntimeFault
from ttmem.model.mesh import MeshDevice
from ttmem.model.prefetcher_cache import prefetcher_cache
from ttmem.model.program import Program
from ttmem.model.ring import KernelConfigRing, Slot, ring_sizes
from ttmem.model.workload import MeshWorkload


class CommandQueue:
    """The state of one command queue: the kernel-config ring and the prefetcher's cache."""

    def __init__(self, mesh: MeshDevice) -> None:
        self._mesh = mesh
        self.ring = KernelConfigRing(ring_sizes(mesh.spec))
        self.prefetcher = prefetcher_cache(mesh.spec)
        self.recording: list[MeshWorkload] | None = None  # while a trace is being captured

    def launch(self, workload: MeshWorkload, cache_hit: bool | None) -> Slot:
        """One launch: reserves a slot of the ring on every core and updates the counters."""
        mesh = self._mesh
        layout = workload.prepare(mesh)
        first = workload.status is BinaryStatus.NOT_SENT
        if first:
            workload.load_binaries(mesh, layout.binary_data_bytes)
        slot = self.ring.launch(layout.program_config_sizes, mesh.spec.l1_banks, first)
        if layout.binary_data_bytes:
            self.prefetcher.query(workload.id, layout.binary_data_bytes)
        mesh.tracker.track_program_dispatch(workload.id, mesh.target, cache_hit=cache_hit)
        self.report_ring()
        if first:
            workload.set_status(mesh, BinaryStatus.COMMITTED)
        return slot

    def report_ring(self) -> None:
        """The state of the ring, in bytes for the whole device."""
        ring, mesh = self.ring, self._mesh
        occupied = ring.occupied * mesh.spec.l1_banks
        mesh.tracker.track_ring(
            mesh.target, occupied, ring.wraps, ring.syncs, programs=ring.live_entries
        )


def enqueue_mesh_workload(
    mesh: MeshDevice, workload: MeshWorkload, cq_id: int = 0, *, cache_hit: bool | None = None
) -> Slot | None:
    """Fast dispatch; during a trace capture, the workload is recorded instead."""
    with mesh.lock:
        mesh.check_open()
        if mesh.spec.dispatch is Dispatch.SLOW:
            _launch_slowly(mesh, workload, cache_hit)
            return None
        queue = mesh.command_queue(cq_id)
        if queue.recording is None:
            return queue.launch(workload, cache_hit)
        if workload.status is not BinaryStatus.COMMITTED:
            raise RuntimeFault(
                f"program {workload.id} has not run yet, and binaries cannot be loaded"
                " during trace capture; run it once first"
            )
        queue.recording.append(workload)
        return None


def launch_program(mesh: MeshDevice, program: Program | MeshWorkload) -> MeshWorkload:
    """Slow dispatch: no copy in DRAM, and the ring does not rotate; kernel text is at its base."""
    workload = program if isinstance(program, MeshWorkload) else MeshWorkload(program)
    with mesh.lock:
        mesh.check_open()
        _launch_slowly(mesh, workload, None)
    return workload


def _launch_slowly(mesh: MeshDevice, workload: MeshWorkload, cache_hit: bool | None) -> None:
    workload.prepare(mesh)
    workload.set_status(mesh, BinaryStatus.NOT_SENT)
    mesh.tracker.track_program_dispatch(workload.id, mesh.target, cache_hit=cache_hit)
