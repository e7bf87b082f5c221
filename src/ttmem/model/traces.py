"""Traces: a sequence of launches, captured once and replayed without the host."""

from __future__ import annotations

from itertools import count

from ttmem.events import MemoryKind
from ttmem.hw.arch import align_up
from ttmem.model.dispatch import MeshDevice, Trace
from ttmem.model.errors import RuntimeFault
from ttmem.model.mesh import create_buffer

COMMANDS_PER_LAUNCH = 512  # bytes: go signals, waits and headers beside the slot's own contents
TRACE_PAGE = 8192

_ids = count(1)


def begin_trace_capture(mesh: MeshDevice, cq_id: int = 0) -> int:
    """From now on, enqueued workloads are recorded instead of run."""
    with mesh.lock:
        mesh.check_open()
        queue = mesh.command_queue(cq_id)
        if queue.recording is not None:
            raise RuntimeFault(f"command queue {cq_id} is capturing a trace already")
        queue.recording = []
        trace = Trace(next(_ids), cq_id, queue.recording)
        mesh.traces[trace.id] = trace
        return trace.id


def end_trace_capture(mesh: MeshDevice, trace_id: int, cq_id: int = 0) -> None:
    """Commands are stored in TRACE memory or, without a trace region, at the top of DRAM."""
    with mesh.lock:
        mesh.check_open()
        trace = _trace(mesh, trace_id)
        queue = mesh.command_queue(cq_id)
        if queue.recording is not trace.workloads:
            raise RuntimeFault(f"command queue {cq_id} is not capturing trace {trace_id}")
        queue.recording = None
        size = align_up(_command_bytes(trace), TRACE_PAGE)
        in_region = mesh.spec.trace_bank_size > 0
        kind = MemoryKind.TRACE if in_region else MemoryKind.DRAM
        trace.buffer = create_buffer(
            mesh, size, TRACE_PAGE, kind, bottom_up=in_region, site="trace_storage"
        )
        mesh.live_traces += 1


def execute_trace(mesh: MeshDevice, trace_id: int, cq_id: int = 0) -> None:
    """Repeats every captured launch. Afterwards the contents of the rings are unknown."""
    with mesh.lock:
        mesh.check_open()
        trace = _trace(mesh, trace_id)
        if trace.buffer is None:
            raise RuntimeFault(f"trace {trace_id} is still being captured; end the capture first")
        queue = mesh.command_queue(cq_id)
        for workload in trace.workloads:
            mesh.tracker.track_program_dispatch(workload.id, mesh.target)
        queue.ring.mark_completely_full()
        queue.prefetcher.reset()
        queue.report_ring()


def release_trace(mesh: MeshDevice, trace_id: int) -> None:
    with mesh.lock:
        mesh.check_open()
        trace = _trace(mesh, trace_id)
        del mesh.traces[trace_id]
        if trace.buffer is not None:
            mesh.live_traces -= 1
            trace.buffer.deallocate()
        else:
            mesh.command_queue(trace.cq_id).recording = None


def _trace(mesh: MeshDevice, trace_id: int) -> Trace:
    trace = mesh.traces.get(trace_id)
    if trace is None:
        raise RuntimeFault(f"there is no trace {trace_id} on this mesh")
    return trace


def _command_bytes(trace: Trace) -> int:
    slots = (w.program.finalize_offsets().program_config_sizes[0] for w in trace.workloads)
    return sum(slot + COMMANDS_PER_LAUNCH for slot in slots) or COMMANDS_PER_LAUNCH
