"""What an application calls to report its use of device memory."""

from ttmem.client.allocation_client import AllocationClient
from ttmem.client.buffer import Buffer
from ttmem.client.devices import Device, MeshDevice
from ttmem.client.lifecycle import ClientStats
from ttmem.client.tracker import GraphTracker
from ttmem.events import BinaryStatus, DeviceDeclaration, KernelType, MemoryKind

__all__ = [
    "AllocationClient",
    "BinaryStatus",
    "Buffer",
    "ClientStats",
    "Device",
    "DeviceDeclaration",
    "GraphTracker",
    "KernelType",
    "MemoryKind",
    "MeshDevice",
]
