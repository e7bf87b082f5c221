"""What the ledger knows of a device beside its bytes."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ttmem.events import DeviceDeclaration, MemoryKind
from ttmem.snapshots import Provenance


@dataclass(slots=True, eq=False)
class DeviceRecord:
    """A chip: its identity, and its declaration with where that came from."""

    index: int
    unique_id: str
    declaration: DeviceDeclaration
    declared_by: str | None  # None: nobody, all capacities are unknown
    identity: Provenance
    by_process: dict[int, DeviceDeclaration] = field(default_factory=dict)

    def declare(self, process: int, declaration: DeviceDeclaration) -> None:
        """A client says what it opened. Each process chooses its own region sizes."""
        self.by_process[process] = declaration
        self.declaration, self.declared_by = _together(declaration, self.by_process), "client"

    def withdraw(self, process: int) -> None:
        """The process is gone; what others declared holds, or what was known last."""
        if self.by_process.pop(process, None) is not None and self.by_process:
            latest = list(self.by_process.values())[-1]
            self.declaration = _together(latest, self.by_process)

    def capacity(self, kind: MemoryKind) -> int | None:
        """What can be allocated of one kind, in all banks together."""
        declared = self.declaration
        if kind is MemoryKind.DRAM:
            banks, size = declared.dram_banks, declared.dram_bank_size
        elif kind is MemoryKind.TRACE:
            banks, size = declared.dram_banks, declared.trace_bank_size
        elif kind is MemoryKind.L1:
            banks, size = declared.l1_banks, declared.l1_bank_size
        else:
            banks, size = declared.l1_banks, declared.l1_small_bank_size
        return None if banks is None or size is None else banks * size

    @property
    def l1_capacity(self) -> int | None:
        """What L1, L1_SMALL and circular buffers share."""
        if self.declaration.l1_capacity is not None:
            return self.declaration.l1_capacity
        parts = (self.capacity(MemoryKind.L1), self.capacity(MemoryKind.L1_SMALL))
        return None if parts[0] is None else parts[0] + (parts[1] or 0)

    @property
    def capacity_provenance(self) -> Provenance:
        """Who said how large the memories are."""
        if self.declared_by is None:
            missing = "no client declared this device; give the server --board, --cluster or --l1-capacity"
            return Provenance("none", "unknown", missing)
        return Provenance(self.declared_by, "declared", self.declaration.note)


_REGIONS = ("dram_bank_size", "trace_bank_size", "l1_bank_size", "l1_small_bank_size")


def _together(
    latest: DeviceDeclaration, declared: Mapping[int, DeviceDeclaration]
) -> DeviceDeclaration:
    """The hardware is one; of each region the largest that a live process has set aside counts."""
    largest: dict[str, Any] = {
        name: max(
            (size for d in declared.values() if (size := getattr(d, name)) is not None),
            default=None,
        )
        for name in _REGIONS
    }
    return replace(latest, **largest)


def made_up_id(logical_id: int) -> str:
    """The unique id of a device that is known by number only: host and number."""
    return f"{socket.gethostname()}:{logical_id}"


DECLARED_ID = Provenance("declaration", "chip unique id")
MADE_UP_ID = Provenance(
    "socket", "made from host and logical id", "the client sent no chip unique id"
)
