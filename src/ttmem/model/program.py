"""A program: kernels, buffers, semaphores and arguments, and their final layout."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

from ttmem.errors import BadInput
from ttmem.events import KernelType
from ttmem.hw import DeviceSpec, Dispatch, Grid
from ttmem.model.circular_buffers import BufferKind, L1Layout, ProgramBuffer, ProgramFault
from ttmem.model.core_ranges import (
    Core,
    CoreRangeSet,
    CoreType,
    check_inside,
    cores_of,
    intersects,
    merge,
)
from ttmem.model.kernels import SimulatedKernel
from ttmem.model.slot_layout import (
    ProgramLayout,
    RuntimeArgs,
    Semaphore,
    circular_buffers_per_core,
    free_id,
    slot_layout,
)


def _check_size(size: int) -> None:
    if size <= 0:
        raise BadInput(f"a circular buffer must have 1 or more bytes, not {size}")


_ids = count(1)


class SimulatedProgram:
    """Programs are numbered per process, from 1."""

    def __init__(
        self,
        spec: DeviceSpec,
        kernel_type: KernelType = KernelType.APPLICATION,
    ) -> None:
        self.id = next(_ids)
        self.spec = spec
        self.kernel_type = kernel_type
        self.kernels: list[SimulatedKernel] = []
        # Circular buffers, or dataflow buffers and scratchpads; a handle is an index.
        self.buffers: list[ProgramBuffer] = []
        self.l1: L1Layout | None = (
            None  # where they are; None until they are allocated, and after a change
        )
        self.semaphores: list[Semaphore] = []
        self.layout: ProgramLayout | None = None
        self.is_compiled = False
        self._args: list[RuntimeArgs] = []

    @property
    def num_cores(self) -> int:
        """Over all core types."""
        sets: dict[CoreType, set[Core]] = {}
        for kernel in self.kernels:
            sets.setdefault(kernel.core_type, set()).update(cores_of(kernel.cores))
        return sum(len(cores) for cores in sets.values())

    def add_kernel(self, kernel: SimulatedKernel) -> int:
        self._check_open("kernel")
        check_inside(kernel.cores, self._grid(kernel.core_type))
        self.kernels.append(kernel)
        unique = {kernel.cores: kernel.unique_runtime_args}
        self._args.append(RuntimeArgs(unique, kernel.common_runtime_args))
        return len(self.kernels) - 1

    def add_circular_buffer(
        self,
        cores: CoreRangeSet,
        size: int,
        *,
        indices: tuple[int, ...] | None = None,
        remote_indices: tuple[int, ...] = (),
        address: int | None = None,
        merged: bool = True,
    ) -> int:
        """With an address it is globally allocated: it uses the L1 buffer at that address.

        A program made from a descriptor keeps its ranges as they are; otherwise they are merged.
        """
        new = ProgramBuffer(BufferKind.CIRCULAR, cores, size, address=address)
        new.remote_indices = remote_indices
        return self._add_buffer(new, indices, merged)

    def add_dataflow_buffer(
        self,
        cores: CoreRangeSet,
        size: int,
        *,
        alias_of: int | None = None,
        address: int | None = None,
        merged: bool = True,
    ) -> int:
        """With an address it borrows a tensor's memory; an alias shares another one's."""
        new = ProgramBuffer(BufferKind.DATAFLOW, cores, size, address=address)
        if alias_of is not None:
            self._buffer(alias_of, BufferKind.DATAFLOW)
            new.alias_of = alias_of
        return self._add_buffer(new, None, merged)

    def add_scratchpad(self, cores: CoreRangeSet, size: int) -> int:
        return self._add_buffer(ProgramBuffer(BufferKind.SCRATCHPAD, cores, size), (), True)

    def update_circular_buffer_total_size(self, handle: int, size: int) -> None:
        buffer = self._buffer(handle, BufferKind.CIRCULAR)
        _check_size(size)
        if size != buffer.size:
            buffer.size = size
            self._forget_places(buffer)

    def update_dynamic_circular_buffer_address(self, handle: int, address: int) -> None:
        """Moves a global circular buffer to another L1 buffer."""
        buffer = self._buffer(handle, BufferKind.CIRCULAR)
        if not buffer.is_global:
            raise ProgramFault(f"circular buffer {handle} is local: the program places it itself")
        buffer.address = address

    def add_semaphore(self, cores: CoreRangeSet, core_type: CoreType = CoreType.TENSIX) -> int:
        self._check_open("semaphore")
        check_inside(cores, self._grid(core_type))
        new = Semaphore(free_id(self.semaphores, cores, core_type), core_type, cores)
        self.semaphores.append(new)
        return new.id

    def set_runtime_args(self, kernel: int, words: int, cores: CoreRangeSet | None = None) -> None:
        """Unique arguments, on the kernel's cores or some of them."""
        args = self._args_of(kernel)
        where = self.kernels[kernel].cores if cores is None else cores
        self._check_args(kernel, args.unique.get(where, 0), words)
        args.unique[where] = words

    def set_common_runtime_args(self, kernel: int, words: int) -> None:
        args = self._args_of(kernel)
        self._check_args(kernel, args.common, words)
        self._args[kernel] = replace(args, common=words)

    def compile(self) -> None:
        """From now on, nothing can be added."""
        self.is_compiled = True

    def allocate_circular_buffers(self, base: int | None = None) -> bool:
        """Places dataflow buffers and scratchpads too, unless nothing has changed since; returns whether it did."""
        base = self.spec.cb_base if base is None else base
        if self.l1 is not None and self.l1.base == base:
            return False
        self.l1 = L1Layout(base, self.spec.dram_alignment, self.buffers)
        return True

    def finalize_offsets(self, *, mock: bool = False) -> ProgramLayout:
        """Computes once. For a mock device kernels have no text."""
        if not self.is_compiled:
            raise ProgramFault(f"Program {self.id} is not compiled; its kernels have no size yet")
        if self.layout is None:
            layout = self._finalize()
            self.layout = layout.without_text() if mock else layout
        return self.layout

    def _finalize(self) -> ProgramLayout:
        slots = tuple(
            slot_layout(
                self.spec, core_type, self.kernels, self._args, self.semaphores, self.buffers
            )
            for core_type in CoreType
        )
        used = {kernel.core_type for kernel in self.kernels}
        return ProgramLayout(
            slots=slots,
            binary_data_bytes=sum(kernel.binary_bytes for kernel in self.kernels),
            num_cores=self.num_cores,
            launch_messages=(int(CoreType.TENSIX in used), int(CoreType.ACTIVE_ETH in used)),
        )

    def _add_buffer(
        self, buffer: ProgramBuffer, indices: tuple[int, ...] | None, merged: bool
    ) -> int:
        """The handle. Without indices, the buffer gets the lowest that is free on all its cores."""
        self._check_open(buffer.kind.value)
        check_inside(buffer.cores, self._grid(CoreType.TENSIX))
        if merged:
            buffer.cores = merge(buffer.cores)
        buffer.is_global = buffer.address is not None
        _check_size(buffer.size)
        self._check_not_mixed(buffer.kind)
        used = self._used_indices(buffer.cores)
        if indices is None:
            indices = (next(index for index in count() if index not in used),)
        self._check_indices((*indices, *buffer.remote_indices), used)
        buffer.indices = indices
        self.buffers.append(buffer)
        self._forget_places(buffer)
        return len(self.buffers) - 1

    def _buffer(self, handle: int, kind: BufferKind) -> ProgramBuffer:
        if not 0 <= handle < len(self.buffers) or self.buffers[handle].kind is not kind:
            raise ProgramFault(f"No {kind.value} with id {handle} exists in this program")
        return self.buffers[handle]

    def _forget_places(self, changed: ProgramBuffer) -> None:
        # The L1 allocator decides where a global one is.
        if not changed.is_global:
            self.l1 = None

    def _check_not_mixed(self, kind: BufferKind) -> None:
        for other in self.buffers:
            if (other.kind is BufferKind.CIRCULAR) != (kind is BufferKind.CIRCULAR):
                raise ProgramFault(
                    f"Cannot add {kind.value} to a program that already has {other.kind.value}s"
                )

    def _used_indices(self, cores: CoreRangeSet) -> set[int]:
        return {
            index
            for other in self.buffers
            if intersects(other.cores, cores)
            for index in (*other.indices, *other.remote_indices)
        }

    def _check_indices(self, indices: tuple[int, ...], used: set[int]) -> None:
        most = circular_buffers_per_core(self.spec.arch)
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

    def _check_open(self, what: str) -> None:
        if self.is_compiled:
            raise ProgramFault(f"Cannot add {what} to an already compiled program {self.id}")

    def _args_of(self, kernel: int) -> RuntimeArgs:
        if not 0 <= kernel < len(self._args):
            raise ProgramFault(f"No kernel with id {kernel} exists in program {self.id}")
        return self._args[kernel]

    def _check_args(self, kernel: int, before: int, words: int) -> None:
        if words < 0 or (self.layout is not None and words != before):
            raise ProgramFault(
                f"Illegal runtime args on kernel {self.kernels[kernel].name!r}: "
                f"their number cannot be modified from {before} to {words}"
            )

    def _grid(self, core_type: CoreType) -> Grid | None:
        """Dispatch kernels run in the row or column that applications do not get."""
        if core_type is not CoreType.TENSIX:
            return None
        x, y = self.spec.grid
        if self.kernel_type is KernelType.APPLICATION:
            return self.spec.grid
        return Grid(
            x + (self.spec.dispatch is Dispatch.COL), y + (self.spec.dispatch is Dispatch.ROW)
        )
