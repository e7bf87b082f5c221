"""What the device table says of one device, before it is laid out."""

from __future__ import annotations

from dataclasses import dataclass

from ttmem.sizes import human
from ttmem.snapshot import CircularBuffers, Device
from ttmem.views.ink import Line, faint, ink
from ttmem.views.names import logical, model


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """Texts and figures of one device."""

    number: str
    model: str
    unique_id: str
    pci: str | None
    dram: tuple[int, int | None]
    l1: tuple[int, int | None]
    beside_dram: tuple[Line, ...]
    l1_parts: tuple[Line, ...]


def device_facts(device: Device) -> DeviceFacts:
    """The facts of a device."""
    return DeviceFacts(
        number=logical(device),
        model=model(device),
        unique_id=device.unique_id,
        pci=device.pci,
        dram=(device.memory.dram.held, device.memory.dram.capacity),
        l1=(device.l1_used, device.l1_capacity),
        beside_dram=_beside_dram(device),
        l1_parts=_l1_parts(device),
    )


def fact(label: str, value: str) -> Line:
    """'CB 29.8 MiB'."""
    return (*faint(f"{label} "), *ink(value))


def trace_text(device: Device) -> str | None:
    """'22.5 MiB / 64.0 MiB'; None while no trace is there."""
    trace = device.memory.trace
    if not trace.held:
        return None
    return human(trace.held) + (f" / {human(trace.capacity)}" if trace.capacity is not None else "")


def requested_text(device: Device) -> str | None:
    """What was asked for, where lock-step allocation took more."""
    dram = device.memory.dram
    return human(dram.requested) if dram.requested != dram.held else None


def cb_measure(cb: CircularBuffers) -> str:
    """Which of the three numbers stands in the L1 sum: 'cached', 'demand', 'mixed' over processes, '' for none."""
    if not cb.used:
        return ""
    if cb.cached is not None:
        return "cached"
    return "demand" if cb.used == cb.demand else "mixed"


def _beside_dram(device: Device) -> tuple[Line, ...]:
    texts = (("requested", requested_text(device)), ("TRACE", trace_text(device)))
    return tuple(fact(label, text) for label, text in texts if text is not None)


def _l1_parts(device: Device) -> tuple[Line, ...]:
    memory = device.memory
    circular = f"{human(memory.cb.used)} {cb_measure(memory.cb)}".rstrip()
    return (
        fact("L1", human(memory.l1.held)),
        fact("L1_SMALL", human(memory.l1_small.held)),
        fact("CB", circular),
    )
