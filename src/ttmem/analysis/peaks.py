"""Peaks beside sizes, so that users can size the regions whose size they choose themselves."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ttmem.analysis.process_picture import DeviceUse, HighWater
from ttmem.events.device import DeviceDeclaration
from ttmem.events.kinds import MemoryKind


@dataclass(frozen=True, slots=True)
class Setting:
    """An argument of `open_device` that decides the size of a region."""

    name: str
    value: int
    needed: int  # at the peak; a region that is fragmented needs more
    rounded: bool = False  # up, to be divided among banks: less may have been given


@dataclass(frozen=True, slots=True)
class Peak:
    """The same high-water mark on one or more devices."""

    chips: tuple[int, ...]
    high_water: HighWater
    size: int | None  # of that kind of memory; None where it is unknown, or does not apply
    setting: Setting | None


def peaks(devices: Iterable[DeviceUse]) -> list[Peak]:
    """Devices of a mesh that did the same are one row."""
    rows: dict[tuple[HighWater, int | None, Setting | None], list[int]] = {}
    for device in devices:
        declared = device.declaration
        for mark in device.peaks:
            size = size_of(declared, mark.kind)
            if mark.bytes or size:
                key = (mark, size, _setting(declared, mark))
                rows.setdefault(key, []).append(declared.logical_id)
    found = [Peak(tuple(sorted(chips)), *key) for key, chips in rows.items()]
    return sorted(found, key=lambda peak: (peak.chips, peak.high_water.kind))


def size_of(device: DeviceDeclaration, kind: int) -> int | None:
    """Bytes of one kind of memory in all banks."""
    banks, size = bank_of(device, kind)
    return banks * size if banks and size is not None else None


def bank_of(device: DeviceDeclaration, kind: int) -> tuple[int | None, int | None]:
    """Number and size of the banks of one kind."""
    places = {
        MemoryKind.DRAM: (device.dram_banks, device.dram_bank_size),
        MemoryKind.L1: (device.l1_banks, device.l1_bank_size),
        MemoryKind.L1_SMALL: (device.l1_banks, device.l1_small_bank_size),
        MemoryKind.TRACE: (device.dram_banks, device.trace_bank_size),
    }
    known = kind in list(MemoryKind)
    return places.get(MemoryKind(kind), (None, None)) if known else (None, None)


def _setting(device: DeviceDeclaration, mark: HighWater) -> Setting | None:
    banks, size = bank_of(device, mark.kind)
    if not banks or size is None:
        return None
    if mark.kind is MemoryKind.L1_SMALL:  # of each core
        return Setting("l1_small_size", size, -(-mark.bytes // banks))
    if mark.kind is MemoryKind.TRACE:  # of all banks together
        return Setting("trace_region_size", size * banks, mark.bytes, rounded=True)
    return None
