"""Amounts by kind of memory, and the banks of each kind."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum

from ttmem.fast_dataclasses import NamedTuple


class MemoryKind(IntEnum):
    """Where a buffer lives; the numbers are those of the runtime's BufferType."""

    DRAM = 0
    L1 = 1
    SYSTEM_MEMORY = 2  # host memory, not counted for any device
    L1_SMALL = 3
    TRACE = 4


# Regions whose size is an argument of `open_device`, so a peak next to it is worth showing even if it is 0.
USER_SIZED = (MemoryKind.L1_SMALL, MemoryKind.TRACE)


class Amounts(NamedTuple):
    """Bytes by kind of memory."""

    # A named tuple because a busy host yields 2,048 of these per reading, and a frozen dataclass takes six times as
    # long to create.
    dram: int = 0
    l1: int = 0
    l1_small: int = 0
    trace: int = 0
    cb: int = 0  # circular buffers

    @classmethod
    def of_kinds(cls, kinds: Sequence[int], cb: int = 0) -> Amounts:
        """From one number per MemoryKind."""
        dram, l1, _, l1_small, trace = kinds
        return cls(dram, l1, l1_small, trace, cb)

    @classmethod
    def total(cls, parts: Iterable[Amounts]) -> Amounts:
        return cls(*map(sum, zip(*parts, strict=True)))

    @property
    def all(self) -> int:
        return sum(self)

    @property
    def l1_used(self) -> int:
        """What L1, L1_SMALL and circular buffers take of the L1 they share."""
        return self.l1 + self.l1_small + self.cb

    def by_label(self) -> dict[str, int]:
        return dict(zip(LABELS, self, strict=True))


KINDS = Amounts._fields
LABELS = tuple(name.upper() for name in KINDS)  # as tables and the runtime spell them


class Banks(NamedTuple):
    """The banks that hold one kind of memory: all alike, and allocated in lock-step."""

    number: int | None
    size: int | None  # bytes that can be allocated in each bank
    base: int | None  # the first address the allocator gives out

    @property
    def capacity(self) -> int | None:
        return None if self.number is None or self.size is None else self.number * self.size
