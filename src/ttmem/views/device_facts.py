"""What the device table says of one device, before it is laid out."""

from __future__ import annotations

from dataclasses import dataclass

from ttmem.sizes import human
from ttmem.snapshots import CircularBuffers, Device
from ttmem.views.ink import Line, faint, flow, ink
from ttmem.views.names import logical, model, short_pci

Figures = tuple[int, int | None]  # used, capacity


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """Texts and figures of one device."""

    number: str
    board: str
    model: str
    unique_id: str
    pci: str | None
    dram: Figures
    l1: Figures
    beside_dram: tuple[Line, ...]
    l1_parts: tuple[Line, ...]

    @property
    def pci_line(self) -> list[Line]:
        """The PCI address, if there is one."""
        return [faint(self.pci)] if self.pci else []

    def parts(self, room: int) -> list[Line]:
        """'= L1 2.2 MiB + L1_SMALL 0 B + CB 29.8 MiB cached': what L1 used is made of."""
        signs = ("=", "+", "+")
        facts = [
            (*faint(f"{sign} "), *part) for sign, part in zip(signs, self.l1_parts, strict=True)
        ]
        return flow(facts, room, " ")


def device_facts(device: Device, trace_limit: bool = True) -> DeviceFacts:
    """The facts of a device."""
    return DeviceFacts(
        number=logical(device),
        board=device.board or device.arch or "N/A",
        model=model(device),
        unique_id=device.unique_id,
        pci=short_pci(device),
        dram=(device.memory.dram.held, device.memory.dram.capacity),
        l1=(device.l1_used, device.l1_capacity),
        beside_dram=_beside_dram(device, trace_limit),
        l1_parts=_l1_parts(device),
    )


def fact(label: str, value: str) -> Line:
    """'CB 29.8 MiB'."""
    return (*faint(f"{label} "), *ink(value))


def trace_text(device: Device, limit: bool = True) -> str | None:
    """'22.5 MiB / 64.0 MiB'; None while no trace is there."""
    trace = device.memory.trace
    if not trace.held:
        return None
    known = limit and trace.capacity is not None
    return human(trace.held) + (f" / {human(trace.capacity)}" if known else "")


def requested_text(device: Device) -> str | None:
    """What was asked for, where lock-step allocation took visibly more."""
    requested, held = human(device.memory.dram.requested), human(device.memory.dram.held)
    return requested if requested != held else None


def cb_measure(cb: CircularBuffers) -> str:
    """Which number stands in the L1 sum: 'cached', 'demand', 'mixed' over processes, or ''."""
    if not cb.used:
        return ""
    if cb.cached is not None:
        return "cached"
    return "demand" if cb.used == cb.demand else "mixed"


def _beside_dram(device: Device, trace_limit: bool) -> tuple[Line, ...]:
    texts = (("requested", requested_text(device)), ("TRACE", trace_text(device, trace_limit)))
    return tuple(fact(label, text) for label, text in texts if text is not None)


def _l1_parts(device: Device) -> tuple[Line, ...]:
    memory = device.memory
    circular = f"{human(memory.cb.used)} {cb_measure(memory.cb)}".rstrip()
    return (
        fact("L1", human(memory.l1.held)),
        fact("L1_SMALL", human(memory.l1_small.held)),
        fact("CB", circular),
    )
