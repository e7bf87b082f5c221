"""What the ledger knows of a device beside its bytes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from ttmem.events import DeviceDeclaration, DeviceSample, MemoryKind
from ttmem.ledger.history import DeviceHistory
from ttmem.ledger.polled_peaks import PolledPeaks
from ttmem.snapshots import L1Map, Provenance


class AddressRange(NamedTuple):
    """The same addresses in each of so many banks."""

    base: int
    size: int  # of one bank
    banks: int


@dataclass(slots=True, eq=False)
class DeviceRecord:
    """A chip: its identity, and its declaration with where that came from."""

    index: int
    unique_id: str
    declaration: DeviceDeclaration
    declared_by: str | None  # None: nobody, all capacities are unknown
    identity: Provenance
    user: str | None = None  # of the process, or the file, that told of it first
    by_process: dict[int, DeviceDeclaration] = field(default_factory=dict)
    sample: DeviceSample | None = None  # what counters said of it last
    by_counters: bool = False  # nothing but counters has told of it yet
    vacated: bool = False  # all that was reported of it turned out to belong to another device
    history: DeviceHistory = field(default_factory=DeviceHistory)
    polled: PolledPeaks = field(default_factory=PolledPeaks)
    counted: bool = False  # counters have told of bytes in it, since its peaks began
    l1_peak_missed: bool = False  # a watched process came to it, or went on, unseen for a while
    one_layout: bool = True  # all that have the device open have split its banks in the same way
    largest: dict[MemoryKind, int] = field(default_factory=dict)  # capacities that were in force

    def declare(self, process: int, declaration: DeviceDeclaration, by: str) -> None:
        """A client or the probe says what was opened. Each process chooses its own region sizes."""
        self.by_process[process] = declaration
        self._join(declaration)
        self.declared_by = by

    def withdraw(self, process: int) -> None:
        """The process is gone; what others declared holds, or what was known last."""
        if self.by_process.pop(process, None) is not None and self.by_process:
            self._join(list(self.by_process.values())[-1])

    def _join(self, latest: DeviceDeclaration) -> None:
        self.declaration = _together(latest, self.by_process)
        self.one_layout = len({_layout(each) for each in self.by_process.values()}) == 1
        for kind in MemoryKind:
            self.largest[kind] = max(self.largest.get(kind, 0), self.capacity(kind) or 0)

    def capacity(self, kind: MemoryKind) -> int | None:
        """What can be allocated of one kind, in all banks together."""
        return self.declaration.banks(kind).capacity

    def region(self, kind: MemoryKind) -> AddressRange | None:
        """Where the allocator of one kind gives out addresses; None if nobody declared that."""
        banks, size, base = self.declaration.banks(kind)
        if not self.one_layout or base is None or size is None or not banks:
            return None
        return AddressRange(base, size, banks)

    @property
    def l1_map(self) -> L1Map | None:
        """The boundaries in the L1 of each core, as far as they were declared."""
        declared = self.declaration
        region = self.region(MemoryKind.L1)
        if region is None or declared.l1_per_core is None:
            return None
        ring = declared.ring_per_core
        return L1Map(
            banks=region.banks,
            ring_base=None if ring is None or ring > region.base else region.base - ring,
            base=region.base,
            small_base=region.base + region.size,
            end=declared.l1_per_core,
        )

    @property
    def shown(self) -> bool:
        """Is there anything to say of it? A region that was removed takes its device along."""
        return not self.vacated and (self.sample is not None or not self.by_counters)

    @property
    def logical_id(self) -> int | None:
        """The number that applications use, where anybody knows it."""
        if self.by_counters:
            return None if self.sample is None else self.sample.logical_id
        return self.declaration.logical_id

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
        if self.declared_by is None and self.by_counters:
            return Provenance("none", "unknown", UNKNOWN_BOARD)
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


def _layout(declared: DeviceDeclaration) -> tuple[Any, ...]:
    names = (*_REGIONS, "cb_base", "dram_base", "l1_banks", "dram_banks", "l1_per_core")
    return tuple(getattr(declared, name) for name in names)


def made_up_id(logical_id: int) -> str:
    """The unique id of a device that is known by number only: host and number."""
    return f"{os.uname().nodename}:{logical_id}"


UNKNOWN_BOARD = (
    "no cluster descriptor, driver or board number tells what this device is;"
    " `pip install 'ttmem[umd]'` and `--umd` let ttmem ask the driver"
)
SHARED_ID = Provenance("shared memory", "chip unique id, the name of its region")
DECLARED_ID = Provenance("declaration", "chip unique id")
MADE_UP_ID = "made from host and logical id"


def made_up_identity(declared_by: str | None) -> Provenance:
    """Of a device that is known by number only; who told of it?"""
    if declared_by == "probe":
        return Provenance("probe", MADE_UP_ID, "this runtime does not show chip unique ids")
    return Provenance("socket", MADE_UP_ID, "the client sent no chip unique id")
