"""Buffers: allocated, reported, freed."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from ttmem.client.devices import ReportedBuffer
from ttmem.events import MemoryKind
from ttmem.model.errors import DoubleFree
from ttmem.model.layouts import INTERLEAVED, Layout

if TYPE_CHECKING:
    from ttmem.model.mesh import MeshDevice

_numbers = count(1)  # process-wide, like the runtime's unique ids


class Buffer(ReportedBuffer):
    """One block at the same address in every bank of every device of the mesh."""

    # Two buffers are never equal, so they can be in sets; the reported record compares by value.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __init__(
        self,
        mesh: MeshDevice,
        size: int,
        page_size: int,
        kind: MemoryKind,
        layout: Layout,
        site: str | None,
    ) -> None:
        super().__init__(next(_numbers), size, kind, mesh.target, site=site)
        self.mesh = mesh
        self.page_size = page_size
        self.layout = layout
        self.block = 0  # bytes in each bank
        self.is_allocated = True

    def deallocate(self) -> None:
        """Reports, then frees, as the runtime does."""
        mesh = self.mesh
        with mesh.lock:
            mesh.check_open()
            if not self.is_allocated:
                raise DoubleFree(self.address, self.id)
            self.is_allocated = False
            if self.size:
                mesh.tracker.track_deallocate(self)
                mesh.allocator.free(self.kind, self.address)
                del mesh.buffers[self.id]

    def __repr__(self) -> str:
        state = "" if self.is_allocated else ", freed"
        return f"Buffer({self.id}, {self.kind.name}, {self.size} B at {self.address}{state})"


def create_buffer(
    mesh: MeshDevice,
    size: int,
    page_size: int,
    kind: MemoryKind,
    layout: Layout = INTERLEAVED,
    *,
    bottom_up: bool | None = None,
    site: str | None = None,
) -> Buffer:
    """A buffer of `size` bytes on each device. An empty one occupies nothing and is not reported."""
    with mesh.lock:
        mesh.check_open()
        if size == 0:
            return Buffer(mesh, size, page_size, kind, layout, site)
        sizing = mesh.allocator.size_buffer(kind, size, page_size, layout)
        buffer = Buffer(mesh, size, page_size, kind, layout, site)
        buffer.address = mesh.allocator.allocate(kind, sizing, bottom_up)
        buffer.block, buffer.reserved = sizing.block, sizing.reserved
        mesh.buffers[buffer.id] = buffer
        # The runtime declares allocation safe again while it stores a trace.
        if mesh.live_traces and kind is not MemoryKind.TRACE:
            mesh.note_allocation_in_trace(buffer)
        mesh.tracker.track_allocate(buffer)
        return buffer
