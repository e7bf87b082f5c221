"""Peaks beside sizes, so that users can size the regions whose size they choose themselves."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ttmem.events import MemoryKind
from ttmem.events.device import DeviceDeclaration
from ttmem.probe.report import DeviceReport, HighWater, Refusal


@dataclass(frozen=True, slots=True)
class Setting:
    """An argument of `open_device` that decides the size of a region."""

    name: str
    value: int
    needed: int  # at the peak; a region that is fragmented needs more
    at_least: bool = False  # something was refused: if `needed` is up to `value`, more was needed
    rounded: bool = False  # up, to be divided among banks: less may have been given


@dataclass(frozen=True, slots=True)
class Peak:
    """The same high-water mark on one or more devices."""

    chips: tuple[int, ...]
    high_water: HighWater
    size: int | None  # of that kind of memory; None where it is unknown, or does not apply
    setting: Setting | None


def peaks(devices: Iterable[DeviceReport]) -> list[Peak]:
    """Devices of a mesh that did the same are one row."""
    rows: dict[tuple[HighWater, int | None, Setting | None], list[int]] = {}
    for device in devices:
        declared = device.declaration
        for mark in device.peaks:
            size = _size_at(declared, mark)
            setting = _setting(declared, mark, device.refusals)
            if mark.bytes or size or (setting and setting.at_least):
                key = (mark, size, setting)
                rows.setdefault(key, []).append(declared.logical_id)
    found = [Peak(tuple(sorted(chips)), *key) for key, chips in rows.items()]
    return sorted(found, key=lambda peak: (peak.chips, peak.high_water.kind))


def _size_at(device: DeviceDeclaration, mark: HighWater) -> int | None:
    """Bytes of its memory when the peak was reached."""
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
    refused = [one for one in refusals if one.kind == mark.kind]
    value, needed, at_least = _need(size // banks, -(-mark.bytes // banks), refused)
    if mark.kind is MemoryKind.L1_SMALL:  # of each core
        return Setting("l1_small_size", value, needed, at_least)
    if mark.kind is MemoryKind.TRACE:  # of all banks together
        total = mark.bytes if needed * banks < mark.bytes + banks else needed * banks
        return Setting("trace_region_size", value * banks, total, at_least, rounded=True)
    return None


def _need(value: int, peak: int, refused: Iterable[Refusal]) -> tuple[int, int, bool]:
    """Of one bank: its size, what was needed of it, and whether it may have been more."""
    needed, at_least = peak, False
    for one in refused:
        if one.least is not None and one.bank_size is not None and one.least > needed:
            value, needed, at_least = one.bank_size, one.least, True
        elif one.bank_size in (None, value):  # its free memory was in pieces, or is not told
            at_least = True
    return value, needed, at_least
