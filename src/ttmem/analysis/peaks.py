"""Peaks next to sizes, to help users size the regions that they configure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ttmem.events import MemoryKind
from ttmem.events.device import DeviceDeclaration
from ttmem.probe.report import DeviceReport, HighWater, Refusal


@dataclass(frozen=True, slots=True)
class Setting:
    """An argument of `open_device` that sets the size of a region."""

    name: str
    value: int
    needed: int  # at the peak; a fragmented region needs more
    at_least: bool = (
        False  # an allocation was refused: if `needed` is at most `value`, more was needed
    )
    rounded: bool = False  # rounded up to whole banks: the value given may be less


@dataclass(frozen=True, slots=True)
class RegionPeak:
    """The same high-water mark on one or more devices."""

    chips: tuple[int, ...]
    high_water: HighWater
    size: int | None  # of that kind of memory; None if unknown, or if it does not apply
    setting: Setting | None


def peaks(devices: Iterable[DeviceReport]) -> list[RegionPeak]:
    """Devices of a mesh that did the same share a row."""
    rows: dict[tuple[HighWater, int | None, Setting | None], list[int]] = {}
    for device in devices:
        declared = device.declaration
        for mark in device.peaks:
            size = _size_at(declared, mark)
            setting = _setting(declared, mark, device.refusals)
            if mark.bytes or size or (setting and setting.at_least):
                key = (mark, size, setting)
                rows.setdefault(key, []).append(declared.logical_id)
    found = [RegionPeak(tuple(sorted(chips)), *key) for key, chips in rows.items()]
    return sorted(found, key=lambda peak: (peak.chips, peak.high_water.kind))


def _size_at(device: DeviceDeclaration, mark: HighWater) -> int | None:
    """The size of that memory when the peak was reached."""
    if mark.size is not None:
        return mark.size or None
    banks = device.banks(mark.kind)
    return banks.capacity if banks.number else None


def _setting(
    device: DeviceDeclaration, mark: HighWater, refusals: Iterable[Refusal]
) -> Setting | None:
    banks, size = device.banks(mark.kind).number, _size_at(device, mark)
    if not banks or size is None:
        return None
    refused = [refusal for refusal in refusals if refusal.kind == mark.kind]
    value, needed, at_least = _need(size // banks, -(-mark.bytes // banks), refused)
    if mark.kind is MemoryKind.L1_SMALL:  # of each core
        return Setting("l1_small_size", value, needed, at_least)
    if mark.kind is MemoryKind.TRACE:  # of all banks together
        total = mark.bytes if needed * banks < mark.bytes + banks else needed * banks
        return Setting("trace_region_size", value * banks, total, at_least, rounded=True)
    return None


def _need(value: int, peak: int, refused: Iterable[Refusal]) -> tuple[int, int, bool]:
    """For one bank: its size, what was needed, and whether that is a lower bound."""
    needed, at_least = peak, False
    for refusal in refused:
        if refusal.least is not None and refusal.bank_size is not None and refusal.least > needed:
            value, needed, at_least = refusal.bank_size, refusal.least, True
        elif refusal.bank_size in (None, value):  # its free memory was fragmented, or is unknown
            at_least = True
    return value, needed, at_least
