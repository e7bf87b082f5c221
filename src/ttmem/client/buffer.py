"""A buffer as the application reports it."""

from __future__ import annotations

from dataclasses import dataclass

from ttmem.client.devices import DeviceLike
from ttmem.events import MemoryKind


@dataclass(slots=True)
class Buffer:
    """A buffer on one device, or of this size on each device of a mesh."""

    id: int
    size: int
    kind: MemoryKind
    device: DeviceLike
    address: int = 0
    reserved: int = 0  # bytes over all banks; 0 = unknown
    site: str | None = None  # the line that asked for it
