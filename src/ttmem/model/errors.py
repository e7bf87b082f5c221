"""Errors of the model, with the runtime's own messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ttmem.errors import TtmemError
from ttmem.events import MemoryKind


class FailedRequest(NamedTuple):
    """What a probe reports when an allocation fails."""

    kind: MemoryKind
    size: int  # of a buffer; 0: of a program's circular buffers
    message: str
    site: str | None = None
    program_id: int = 0


class RuntimeFault(TtmemError):
    """An error that the real runtime would raise too."""


@dataclass(eq=False)
class OutOfMemory(RuntimeFault):
    """No free block is large enough. Sizes are those the runtime reports, most of them per bank."""

    kind: str
    size: int
    banks: int
    per_bank: int
    bank_size: int
    allocated: int
    free: int
    largest_free: int

    def __str__(self) -> str:
        return (
            f"Out of Memory: Not enough space to allocate {self.size} B {self.kind} buffer across {self.banks} "
            f"banks, where each bank needs to store {self.per_bank} B, but bank size is {self.bank_size} B "
            f"(allocated: {self.allocated} B, free: {self.free} B, largest free block: {self.largest_free} B)"
        )


class ClashFault(RuntimeFault):
    """Circular or dataflow buffers, `what` says which, grow up into L1 buffers."""

    def __init__(
        self, what: str, program_id: int, cores: str, buffer_address: int, region_end: int
    ) -> None:
        super().__init__(
            f"Statically allocated {what} buffers in program {program_id} clash with L1 buffers "
            f"on core range {cores}. L1 buffer allocated at {buffer_address} and static {what} "
            f"buffer region ends at {region_end}"
        )


class BeyondL1(RuntimeFault):
    """Circular or dataflow buffers, `what` says which, grow past the end of L1."""

    def __init__(self, what: str, cores: str, region_end: int, limit: int) -> None:
        super().__init__(
            f"Statically allocated {what} buffers on core range {cores} grow to {region_end} B "
            f"which is beyond max L1 size of {limit} B"
        )


class ProgramTooLarge(RuntimeFault):
    """One program's configuration does not fit into the kernel-config ring."""

    def __init__(self, size: int, limit: int, core_type: str) -> None:
        super().__init__(
            f"Program size ({size} B) too large for kernel config buffer ({limit} B) on "
            f"{core_type}; a smaller worker_l1_size makes it larger"
        )


class BadBuffer(RuntimeFault):
    """A buffer of impossible size, page, kind or layout."""

    exit_code = 2


class BadMesh(RuntimeFault):
    """These boards cannot form this mesh."""

    exit_code = 2


class OutsideGrid(RuntimeFault):
    exit_code = 2

    def __init__(self, cores: str, grid: tuple[int, int]) -> None:
        x, y = grid
        super().__init__(
            f"Core range {cores} is outside the compute grid of {x} x {y} cores, "
            f"(0,0) to ({x - 1},{y - 1})"
        )


class UseAfterClose(RuntimeFault):
    def __init__(self, device: str) -> None:
        super().__init__(f"{device} is closed; open it again before using it")


class DoubleFree(RuntimeFault):
    """The block to free is not allocated."""

    def __init__(self, address: int, buffer_id: int | None = None) -> None:
        what = "block" if buffer_id is None else f"buffer {buffer_id}"
        super().__init__(
            f"Cannot free the {what} at address {address}: it is not allocated, or was freed before"
        )
