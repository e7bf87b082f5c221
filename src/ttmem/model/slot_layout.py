"""The config slot of a launch: what a program puts where in the kernel-config ring of a core.

| unique args | common args | semaphores | CB configs | DFB configs | kernel text |
offset 0, everything aligned to 16 bytes
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, count
from typing import NamedTuple

from ttmem.hw import Arch, DeviceSpec
from ttmem.hw.arch import align_up
from ttmem.model.circular_buffers import BufferKind, ProgramBuffer, ProgramFault
from ttmem.model.core_ranges import CoreRangeSet, CoreType, cores_of, intersects
from ttmem.model.errors import ProgramTooLarge
from ttmem.model.kernels import KernelGroup, SimulatedKernel, kernel_groups
from ttmem.model.ring import ring_sizes

ALIGNMENT = 16  # of each section
SEMAPHORES_PER_CORE = 16
SEMAPHORE_BYTES = 16


class Semaphore(NamedTuple):
    """Of a program: 16 ids per core, 16 bytes each."""

    id: int
    core_type: CoreType
    cores: CoreRangeSet

    def is_on(self, core_type: CoreType) -> bool:
        """The runtime has one kind for Ethernet, which takes space on active and idle cores."""
        return (self.core_type is CoreType.TENSIX) == (core_type is CoreType.TENSIX)


def free_id(semaphores: Sequence[Semaphore], cores: CoreRangeSet, core_type: CoreType) -> int:
    """The lowest id that is free on all these cores."""
    used = {
        semaphore.id
        for semaphore in semaphores
        if semaphore.is_on(core_type) and intersects(semaphore.cores, cores)
    }
    found = next(number for number in count() if number not in used)
    if found >= SEMAPHORES_PER_CORE:
        raise ProgramFault(
            f"Unable to initialize semaphore on core range {cores[0]}: "
            f"all {SEMAPHORES_PER_CORE} IDs are in use"
        )
    return found


WORD = 4
LOCAL_CONFIG_BYTES = 16
REMOTE_CONFIG_BYTES = 8


class Sections(NamedTuple):
    """Bytes, or offsets."""

    unique_args: int
    common_args: int
    semaphores: int
    circular_buffers: int
    dataflow_buffers: int
    kernel_text: int


@dataclass(frozen=True, slots=True)
class SlotLayout:
    core_type: CoreType
    sizes: Sections

    @property
    def offsets(self) -> Sections:
        return Sections(*accumulate(self.sizes[:-1], initial=0))

    @property
    def size(self) -> int:
        return sum(self.sizes)


@dataclass(frozen=True, slots=True)
class ProgramLayout:
    """The result of finalize_offsets. `slots` has one layout per core type."""

    slots: tuple[SlotLayout, ...]
    binary_data_bytes: int
    num_cores: int
    launch_messages: tuple[int, int]

    @property
    def program_config_sizes(self) -> tuple[int, ...]:
        """Bytes per core type, then one flag each for multicast and unicast launch messages."""
        return (*(slot.size for slot in self.slots), *self.launch_messages)

    def without_text(self) -> ProgramLayout:
        """On a mock device no kernel is sent anywhere."""
        slots = tuple(
            replace(slot, sizes=slot.sizes._replace(kernel_text=0)) for slot in self.slots
        )
        return replace(self, slots=slots, binary_data_bytes=0)

    @property
    def kernel_text_sizes(self) -> tuple[int, ...]:
        return tuple(slot.sizes.kernel_text for slot in self.slots)

    @property
    def kernel_bins_size_of_last_core_type(self) -> int:
        """For the last core type; 0 for programs on Tensix cores only."""
        return self.kernel_text_sizes[-1]


@dataclass(frozen=True, slots=True)
class RuntimeArgs:
    """Words per kernel: `unique` by core set, `common` for all its cores."""

    unique: dict[CoreRangeSet, int]
    common: int


def circular_buffers_per_core(arch: Arch) -> int:
    return 64 if arch is Arch.BLACKHOLE else 32


def text_in_slot(arch: Arch, core_type: CoreType) -> bool:
    """Wormhole's active Ethernet cores have their text at a fixed address."""
    return not (arch is Arch.WORMHOLE and core_type is CoreType.ACTIVE_ETH)


def slot_layout(
    spec: DeviceSpec,
    core_type: CoreType,
    kernels: Sequence[SimulatedKernel],
    args: Sequence[RuntimeArgs],
    semaphores: Iterable[Semaphore],
    buffers: Sequence[ProgramBuffer],
) -> SlotLayout:
    groups = kernel_groups(kernels, core_type)
    sizes = Sections(
        unique_args=_largest(_unique_args(group, args) for group in groups),
        common_args=_largest(_common_args(group, args) for group in groups),
        semaphores=_semaphores(core_type, semaphores),
        circular_buffers=_circular(spec, _of(BufferKind.CIRCULAR, core_type, groups, buffers)),
        dataflow_buffers=_dataflow(_of(BufferKind.DATAFLOW, core_type, groups, buffers)),
        kernel_text=_largest(_text(spec.arch, group, kernels) for group in groups),
    )
    slot = SlotLayout(core_type, sizes)
    limit = ring_sizes(spec)[core_type]
    if slot.size > limit:
        raise ProgramTooLarge(slot.size, limit, core_type.name)
    return slot


def _largest(sizes: Iterable[int]) -> int:
    """Groups differ in content, but the slot has the same size for all."""
    return max(sizes, default=0)


def _unique_args(group: KernelGroup, args: Sequence[RuntimeArgs]) -> int:
    words = 0
    for handle in group.handles:
        words += _largest(
            count
            for cores, count in args[handle].unique.items()
            if not group.cores.isdisjoint(cores_of(cores))
        )
    return align_up(words * WORD, ALIGNMENT)


def _common_args(group: KernelGroup, args: Sequence[RuntimeArgs]) -> int:
    return sum(align_up(args[handle].common * WORD, ALIGNMENT) for handle in group.handles)


def _semaphores(core_type: CoreType, semaphores: Iterable[Semaphore]) -> int:
    return SEMAPHORE_BYTES * _largest(
        semaphore.id + 1 for semaphore in semaphores if semaphore.is_on(core_type)
    )


def _of(
    kind: BufferKind,
    core_type: CoreType,
    groups: Sequence[KernelGroup],
    buffers: Iterable[ProgramBuffer],
) -> list[ProgramBuffer]:
    """Those on cores that run a kernel; only Tensix cores have any."""
    if core_type is not CoreType.TENSIX:
        return []
    return [
        buffer
        for buffer in buffers
        if buffer.kind is kind
        and any(not group.cores.isdisjoint(cores_of(buffer.cores)) for group in groups)
    ]


def _circular(spec: DeviceSpec, buffers: Sequence[ProgramBuffer]) -> int:
    most = circular_buffers_per_core(spec.arch)
    local = _largest(index + 1 for buffer in buffers for index in buffer.indices)
    first_remote = min((i for buffer in buffers for i in buffer.remote_indices), default=most)
    return align_up(
        local * LOCAL_CONFIG_BYTES + (most - first_remote) * REMOTE_CONFIG_BYTES, ALIGNMENT
    )


def _dataflow(buffers: Sequence[ProgramBuffer]) -> int:
    return LOCAL_CONFIG_BYTES * _largest(
        index + 1 for buffer in buffers for index in buffer.indices
    )


def _text(arch: Arch, group: KernelGroup, kernels: Sequence[SimulatedKernel]) -> int:
    """A group counts even if its text is elsewhere, with 0 bytes."""
    if not group.handles or not text_in_slot(arch, kernels[group.handles[0]].core_type):
        return 0
    return sum(kernels[handle].text_bytes for handle in group.handles)
