"""Kernels: how many bytes each needs in DRAM and L1, and which cores run the same."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from ttmem.errors import BadInput
from ttmem.hw.arch import align_up
from ttmem.model.core_ranges import Core, CoreRangeSet, CoreType, cores_of

# Binaries take whole pages in DRAM; in the config slot they have the alignment of L1.
PROGRAM_PAGE = 2048
TEXT_ALIGNMENT = 16


@dataclass(frozen=True, slots=True)
class SimulatedKernel:
    """`packed` has the bytes of each processor's binary: 3 for compute, 1 for data movement.

    Wormhole's active Ethernet loads a binary in pieces: there, list every piece.
    Runtime arguments are counted in words.
    """

    name: str
    core_type: CoreType
    cores: CoreRangeSet
    packed: tuple[int, ...]
    unique_runtime_args: int = 0
    common_runtime_args: int = 0

    def __post_init__(self) -> None:
        if not self.packed or min(self.packed) <= 0:
            raise BadInput(f"kernel {self.name!r} has no binary, or an empty one: {self.packed}")
        if self.unique_runtime_args < 0 or self.common_runtime_args < 0:
            raise BadInput(f"kernel {self.name!r} cannot have less than 0 runtime arguments")

    @property
    def content_id(self) -> int:
        """The same for equal kernels, in every process and run."""
        return _content_id(self.name, self.packed)

    @property
    def binary_bytes(self) -> int:
        """In DRAM, stored once, however many cores run it."""
        return sum(align_up(size, PROGRAM_PAGE) for size in self.packed)

    @property
    def text_bytes(self) -> int:
        """In the L1 of each of its cores."""
        return sum(align_up(size, TEXT_ALIGNMENT) for size in self.packed)


@lru_cache(maxsize=4096)
def _content_id(name: str, packed: tuple[int, ...]) -> int:
    content = "\0".join([name, *map(str, packed)]).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little")


@dataclass(frozen=True, slots=True)
class KernelGroup:
    """Cores that run the same kernels. `handles` are places in the program's list of kernels."""

    handles: tuple[int, ...]
    cores: frozenset[Core]


def kernel_groups(kernels: Sequence[SimulatedKernel], core_type: CoreType) -> list[KernelGroup]:
    handles = [handle for handle, kernel in enumerate(kernels) if kernel.core_type is core_type]
    sets = {kernels[handle].cores for handle in handles}
    # Usually all kernels of a program share one core set; then no core has to be examined.
    if len(sets) == 1:
        return [KernelGroup(tuple(handles), cores_of(sets.pop()))]
    on_core: dict[Core, list[int]] = {}
    for handle in handles:
        for core in cores_of(kernels[handle].cores):
            on_core.setdefault(core, []).append(handle)
    groups: dict[tuple[int, ...], set[Core]] = {}
    for core, running in on_core.items():
        groups.setdefault(tuple(running), set()).add(core)
    return [KernelGroup(running, frozenset(groups[running])) for running in sorted(groups)]
