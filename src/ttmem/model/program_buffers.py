"""The buffers that a program declares: circular ones, or dataflow buffers and scratchpads."""

from __future__ import annotations

from itertools import count

from ttmem.errors import BadInput
from ttmem.hw import DeviceSpec
from ttmem.model.circular_buffers import BufferKind, L1Layout, ProgramBuffer, ProgramFault
from ttmem.model.core_ranges import CoreRangeSet, intersects
from ttmem.model.slot_layout import circular_buffers_per_core


class ProgramBuffers:
    """A handle is the buffer's index in `all`."""

    def __init__(self, spec: DeviceSpec) -> None:
        self._spec = spec
        self.all: list[ProgramBuffer] = []
        self.layout: L1Layout | None = None

    def add(self, buffer: ProgramBuffer, indices: tuple[int, ...] | None) -> int:
        """Without indices it gets the lowest that is free on all its cores."""
        _check_size(buffer.size)
        self._check_not_mixed(buffer.kind)
        used = self._used_indices(buffer.cores)
        if indices is None:
            indices = (next(index for index in count() if index not in used),)
        self._check_indices((*indices, *buffer.remote_indices), used)
        buffer.indices = indices
        self.all.append(buffer)
        self._invalidate(buffer)
        return len(self.all) - 1

    def get(self, handle: int, kind: BufferKind) -> ProgramBuffer:
        if not 0 <= handle < len(self.all) or self.all[handle].kind is not kind:
            raise ProgramFault(f"No {kind.value} with id {handle} exists in this program")
        return self.all[handle]

    def resize(self, buffer: ProgramBuffer, size: int) -> None:
        _check_size(size)
        if size != buffer.size:
            buffer.size = size
            self._invalidate(buffer)

    def place(self, base: int | None) -> bool:
        """Returns whether anything changed. An unchanged layout is kept."""
        base = self._spec.cb_base if base is None else base
        if self.layout is not None and self.layout.base == base:
            return False
        self.layout = L1Layout(base, self._spec.dram_alignment, self.all)
        return True

    def _invalidate(self, buffer: ProgramBuffer) -> None:
        # The L1 allocator decides where a global one is.
        if not buffer.is_global:
            self.layout = None

    def _check_not_mixed(self, kind: BufferKind) -> None:
        for other in self.all:
            if (other.kind is BufferKind.CIRCULAR) != (kind is BufferKind.CIRCULAR):
                raise ProgramFault(
                    f"Cannot add {kind.value} to a program that already has {other.kind.value}s"
                )

    def _used_indices(self, cores: CoreRangeSet) -> set[int]:
        return {
            index
            for other in self.all
            if intersects(other.cores, cores)
            for index in (*other.indices, *other.remote_indices)
        }

    def _check_indices(self, indices: tuple[int, ...], used: set[int]) -> None:
        most = circular_buffers_per_core(self._spec.arch)
        seen = set(used)
        for index in indices:
            if not 0 <= index < most:
                raise ProgramFault(
                    f"Invalid circular buffer index: {index} should be between 0 and {most - 1}"
                )
            if index in seen:
                raise ProgramFault(
                    "Invalid circular buffer index: Cannot add circular buffer at index "
                    f"{index}, another circular buffer already exists"
                )
            seen.add(index)


def _check_size(size: int) -> None:
    if size <= 0:
        raise BadInput(f"a circular buffer must have 1 or more bytes, not {size}")
