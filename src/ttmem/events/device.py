"""What is known about a device: identity, grid, banks and the sizes of its memory regions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ttmem.events.amounts import Banks, MemoryKind
from ttmem.fast_dataclasses import dataclass

if TYPE_CHECKING:
    from ttmem.hw import DeviceSpec
    from ttmem.hw.descriptor import Chip

LARGEST = 1 << 44  # bytes; far more than any board has, yet sums stay far below 2^63


@dataclass(frozen=True, slots=True)
class DeviceDeclaration:
    """As declared by whoever opened the device; unknown values are None."""

    logical_id: int
    unique_id: str | None = None
    board: str | None = None
    arch: str | None = None
    pci: str | None = None
    grid: tuple[int, int] | None = None
    l1_banks: int | None = None
    l1_per_core: int | None = None
    l1_total: int | None = None
    l1_capacity: int | None = None  # what L1, L1_SMALL and circular buffers share
    l1_capacity_default: int | None = None  # the same, if it was opened with default options
    l1_most: int | None = None  # an upper bound, however it was opened
    l1_bank_size: int | None = None  # the part of a bank that holds kind L1
    l1_small_bank_size: int | None = None
    ring_base: int | None = None  # start of a core's kernel-config ring, which ends at cb_base
    cb_base: int | None = None
    dram_base: int | None = None  # the first address the allocator gives out in a DRAM bank
    dram_banks: int | None = None
    dram_bank_size: int | None = None
    trace_bank_size: int | None = None
    ring_per_core: int | None = None
    ring_capacity: int | None = None
    note: str | None = None
    remote: bool | None = None  # reached over Ethernet only, so it has no PCI address
    position: str | None = None  # on a Galaxy: tray and chip, such as T1:N3

    @classmethod
    def from_spec(
        cls,
        spec: DeviceSpec,
        logical_id: int,
        unique_id: str | None = None,
        pci: str | None = None,
        *,
        remote: bool | None = None,
        position: str | None = None,
    ) -> DeviceDeclaration:
        return cls(
            logical_id=logical_id,
            unique_id=unique_id,
            board=spec.board,
            arch=spec.arch.value,
            pci=pci,
            grid=spec.grid,
            l1_banks=spec.l1_banks,
            l1_per_core=spec.l1_per_core,
            l1_total=spec.l1_total,
            l1_capacity=spec.l1_capacity,
            l1_most=spec.l1_most,
            l1_bank_size=spec.l1_bank_size,
            l1_small_bank_size=spec.l1_small_bank_size,
            ring_base=spec.l1_map.kernel_config_base if spec.l1_map.exact else None,
            cb_base=spec.cb_base,
            dram_base=spec.dram_reserved,
            dram_banks=spec.dram_banks,
            dram_bank_size=spec.dram_bank_size,
            trace_bank_size=spec.trace_bank_size,
            ring_per_core=spec.ring_per_core,
            ring_capacity=spec.ring_capacity,
            note=spec.note,
            remote=remote,
            position=position,
        )

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> DeviceDeclaration:
        """Reads what an untrusted client sent. ValueError names the offending field."""
        given: dict[str, Any] = {}
        for name in cls.__match_args__:
            value = document.get(name)
            if value is not None:
                given[name] = _checked(name, value)
        if "logical_id" not in given:
            raise ValueError("a device declaration needs logical_id")
        declared = cls(**given)
        declared._check_sums()
        return declared

    def _check_sums(self) -> None:
        """Each number is within its limits; the values computed from them must be, too."""
        dram = (self.dram_bank_size or 0) + (self.trace_bank_size or 0)
        l1 = (self.l1_bank_size or 0) + (self.l1_small_bank_size or 0)
        ends = {
            "dram_banks x bank sizes": (self.dram_banks or 1) * dram,
            "l1_banks x bank sizes": (self.l1_banks or 1) * l1,
            "dram_base + bank sizes": (self.dram_base or 0) + dram,
            "cb_base + bank sizes": (self.cb_base or 0) + l1,
            "l1_banks x ring_per_core": (self.l1_banks or 1) * (self.ring_per_core or 0),
        }
        for name, end in ends.items():
            _number(name, end, LARGEST)

    def banks(self, kind: int) -> Banks:
        """L1_SMALL and TRACE take the upper end of the banks they share with L1 and DRAM."""
        if kind == MemoryKind.DRAM:
            return Banks(self.dram_banks, self.dram_bank_size, self.dram_base)
        if kind == MemoryKind.L1:
            return Banks(self.l1_banks, self.l1_bank_size, self.cb_base)
        if kind == MemoryKind.L1_SMALL:
            base, size = _sum(self.cb_base, self.l1_bank_size), self.l1_small_bank_size
            if base is None and self.l1_per_core and size:
                base = self.l1_per_core - size
            return Banks(self.l1_banks, size, base)
        if kind == MemoryKind.TRACE:
            base = _sum(self.dram_base, self.dram_bank_size)
            return Banks(self.dram_banks, self.trace_bank_size, base)
        return Banks(None, None, None)

    def to_json(self) -> dict[str, Any]:
        values = ((name, getattr(self, name)) for name in self.__match_args__)
        return {name: value for name, value in values if value is not None}


def declared_chip(spec: DeviceSpec, chip: Chip) -> DeviceDeclaration:
    """A chip of a cluster; `spec` is its own."""
    return DeviceDeclaration.from_spec(
        spec,
        chip.logical_id,
        None if chip.unique_id is None else str(chip.unique_id),
        chip.pci,
        remote=chip.is_remote,
        position=chip.position,
    )


def _sum(base: int | None, size: int | None) -> int | None:
    return None if base is None or size is None else base + size


_TEXT = ("unique_id", "board", "arch", "pci", "note")
_POSITION = r"T[1-4]:N[1-8]"


def _checked(name: str, value: Any) -> Any:
    if name in _TEXT:
        if not isinstance(value, str) or not 0 < len(value) <= 200 or not value.isprintable():
            raise ValueError(f"{name} must be short printable text, not {value!r:.60}")
        return value
    if name == "position":
        if not isinstance(value, str) or not re.fullmatch(_POSITION, value):
            raise ValueError(f"position must be tray and chip, such as T1:N3, not {value!r:.60}")
        return value
    if name == "remote":
        if not isinstance(value, bool):
            raise ValueError(f"remote must be true or false, not {value!r:.60}")
        return value
    if name == "grid":
        if not (isinstance(value, (list, tuple)) and len(value) == 2):
            raise ValueError(f"grid must be [x, y], not {value!r:.60}")
        return (_number("grid x", value[0], 32), _number("grid y", value[1], 32))
    return _number(name, value, LARGEST)


def _number(name: str, value: Any, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise ValueError(f"{name} must be a whole number from 0 to {most}, not {value!r:.60}")
    return value
