"""What an application calls to report its use of device memory.

Each name is loaded on first use: a program that only queries a server (`ttmem.client.query`) starts 40 ms sooner.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ttmem.client.api import AllocationClient, ClientStats
    from ttmem.client.devices import ReportedBuffer as Buffer
    from ttmem.client.devices import ReportedDevice as Device
    from ttmem.client.devices import ReportedMesh as MeshDevice
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

_DEFINED_IN = {
    "AllocationClient": ("ttmem.client.api", "AllocationClient"),
    "Buffer": ("ttmem.client.devices", "ReportedBuffer"),
    "ClientStats": ("ttmem.client.api", "ClientStats"),
    "Device": ("ttmem.client.devices", "ReportedDevice"),
    "MeshDevice": ("ttmem.client.devices", "ReportedMesh"),
    "GraphTracker": ("ttmem.client.tracker", "GraphTracker"),
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'ttmem.client' has no attribute {name!r}")
    module, defined = _DEFINED_IN.get(name, ("ttmem.events", name))
    found: object = getattr(import_module(module), defined)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
