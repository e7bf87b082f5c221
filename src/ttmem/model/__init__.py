"""A model of the runtime: devices, programs, dispatch and operations that report their memory like the real ones."""

from ttmem.model.device import SimulatedDevice as Device
from ttmem.model.dispatch import MeshDevice, enqueue_mesh_workload, launch_program
from ttmem.model.layouts import Interleaved, Sharded
from ttmem.model.mesh import MeshWorkload, SimulatedBuffer, create_buffer
from ttmem.model.opening import open_device, open_mesh_device
from ttmem.model.program import SimulatedProgram
from ttmem.model.tensor import Temporaries, Tensor, from_shape
from ttmem.model.traces import (
    begin_trace_capture,
    end_trace_capture,
    execute_trace,
    release_trace,
)

__all__ = [
    "Device",
    "Interleaved",
    "MeshDevice",
    "MeshWorkload",
    "Sharded",
    "SimulatedBuffer",
    "SimulatedProgram",
    "Temporaries",
    "Tensor",
    "begin_trace_capture",
    "create_buffer",
    "end_trace_capture",
    "enqueue_mesh_workload",
    "execute_trace",
    "from_shape",
    "launch_program",
    "open_device",
    "open_mesh_device",
    "release_trace",
]
