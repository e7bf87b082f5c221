"""The runtime in software: devices, meshes, allocators and buffers that report as the real ones do."""

from ttmem.model.buffer import Buffer, create_buffer
from ttmem.model.device import Device
from ttmem.model.layouts import Interleaved, Sharded
from ttmem.model.mesh import MeshDevice
from ttmem.model.opening import open_device, open_mesh_device

__all__ = [
    "Buffer",
    "Device",
    "Interleaved",
    "MeshDevice",
    "Sharded",
    "create_buffer",
    "open_device",
    "open_mesh_device",
]
