"""A buffer as the application reports it."""

from __future__ import annotations

from dataclasses import dataclass

from ttmem.client.devices import DeviceLike
from ttmem.events import MemoryKind


@dataclass(slots=True)
class Buffer:
    """What `track_allocate` and `track_deallocate` want to know; on a mesh, the part of one chip."""

    id: int
    size: int
    kind: MemoryKind
    device: DeviceLike
    address: int = 0
    reserved: int = 0  # bytes over all banks; 0 = unknown
    site: str | None = None  # the line that asked for it
