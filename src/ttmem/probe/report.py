"""What one watched process did, as plain data: its peaks, failed allocations, and what it never freed."""

from __future__ import annotations

from collections.abc import Iterable

from ttmem.events import Event, Flag, MemoryKind
from ttmem.events.device import DeviceDeclaration
from ttmem.fast_dataclasses import dataclass
from ttmem.probe.layout import Counted


@dataclass(frozen=True, slots=True)
class Origin:
    """The code that caused an allocation; None: unknown."""

    op: str | None = None
    site: str | None = None  # 'file:line function'; with stacks, one line per caller below it
    phase: str | None = None
    sought: bool = True  # False: the process records neither operations nor call sites


@dataclass(frozen=True, slots=True)
class HighWater:
    """The peak of one kind of memory on one device, and what caused it."""

    kind: MemoryKind | Counted
    bytes: int
    origin: Origin
    size: int | None = None  # size of that memory then; 0: unknown, None: as the device is declared


@dataclass(frozen=True, slots=True)
class Refusal:
    """A buffer that did not fit into memory whose size users choose. Bytes in one bank; None: unknown."""

    kind: int
    least: int | None = None  # what the bank would have needed: what it held plus the request
    bank_size: int | None = None


@dataclass(frozen=True, slots=True)
class DeviceReport:
    """One device of the process, as it was last opened."""

    declaration: DeviceDeclaration
    peaks: tuple[HighWater, ...]  # the kinds that were used, and those whose size users choose
    refusals: tuple[Refusal, ...] = ()


@dataclass(frozen=True, slots=True)
class Holding:
    """A buffer that is or was alive."""

    kind: int
    chips: tuple[int, ...]
    held: int  # on each chip: reserved in all banks, or else requested
    address: int
    origin: Origin
    requested: int | None = None  # on each chip; None: unknown


@dataclass(frozen=True, slots=True)
class WantedBuffer:
    """A circular or dataflow buffer of a program that did not fit."""

    address: int
    per_core: int | None  # bytes; None where its cores are unknown
    cores: int | None
    size: int  # on all its cores
    aliased: bool = False  # lies on an L1 buffer


@dataclass(frozen=True, slots=True)
class FailedAllocation:
    what: str  # 'buffer', 'circular buffers', 'dataflow buffers'
    kind: int
    chips: tuple[int, ...]
    requested: int | None
    message: str
    origin: Origin
    holdings: tuple[Holding, ...]  # all kinds
    # False: that moment is no longer known, and `holdings` are the current ones.
    of_that_moment: bool = True
    device: DeviceDeclaration | None = None  # the first of `chips`
    time_ns: int = 0
    pid: int | None = None
    wanted: tuple[WantedBuffer, ...] = ()  # of a program, by address; empty: unknown


@dataclass(frozen=True, slots=True)
class ProcessReport:
    """A process that has ended, or its current state."""

    pid: int
    running: bool
    in_order: bool  # it ended, and the probe could report it
    devices: tuple[DeviceReport, ...]
    never_freed: tuple[Holding, ...]  # or freed only because its device was closed
    failures: int
    losses: tuple[str, ...]  # sentences


def wanted_buffers(refused: Iterable[Event]) -> tuple[WantedBuffer, ...]:
    """From CB_REFUSED events of one chip."""
    found = [
        WantedBuffer(
            event.address,
            event.size // event.number if event.number else None,
            event.number or None,
            event.size,
            bool(event.flags & Flag.GLOBAL),
        )
        for event in refused
    ]
    return tuple(sorted(found, key=lambda buffer: (buffer.address, -buffer.size)))


@dataclass(frozen=True, slots=True)
class Setting:
    """An argument of `open_device` that sets the size of a region."""

    name: str
    value: int
    needed: int  # at the peak; a fragmented region needs more
    # An allocation was refused: if `needed` is at most `value`, more was needed.
    at_least: bool = False
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
