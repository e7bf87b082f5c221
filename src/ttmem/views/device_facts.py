"""What the device table says of one device, before it is laid out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ttmem.sizes import human
from ttmem.snapshots import CircularBuffers, Device
from ttmem.views.ink import Line, faint, flow, ink
from ttmem.views.names import board, logical, model, short_pci

Figures = tuple[int, int | None]  # used, capacity
AMOUNT = len("896.0 KiB")  # room for any amount but '1000.0 MiB', which is rare


@dataclass(frozen=True, slots=True)
class Fact:
    """A label with an amount, and the columns it is given, whatever the amount is now."""

    line: Line
    takes: int


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
    beside_dram: tuple[Fact, ...]
    l1_parts: tuple[Fact, ...]

    @property
    def pci_line(self) -> list[Line]:
        """The PCI address, if there is one."""
        return [faint(self.pci)] if self.pci else []

    @property
    def beside_room(self) -> int:
        """Columns to plan for what stands beside DRAM, on one line."""
        return _room(self.beside_dram, "  ")

    @property
    def parts_room(self) -> int:
        """Columns to plan for the parts of L1, on one line."""
        return _room(self.l1_parts, " ")

    def beside(self, room: int) -> list[Line]:
        """'requested 4.4 GiB  TRACE 22.5 MiB / 64.0 MiB': what else is to say of DRAM."""
        return flow([one.line for one in self.beside_dram], room)

    def parts(self, room: int) -> list[Line]:
        """'= L1 2.2 MiB + L1_SMALL 0 B + CB 29.8 MiB cached': what L1 used is made of."""
        return flow([one.line for one in self.l1_parts], room, " ")


def _room(facts: Sequence[Fact], gap: str) -> int:
    return sum(one.takes + len(gap) for one in facts) - len(gap) if facts else 0


def device_facts(device: Device) -> DeviceFacts:
    """The facts of a device."""
    return DeviceFacts(
        number=logical(device),
        board=board(device),
        model=model(device),
        unique_id=device.unique_id,
        pci=short_pci(device),
        dram=(device.memory.dram.held, device.memory.dram.capacity),
        l1=(device.l1_used, device.l1_capacity),
        beside_dram=_beside_dram(device),
        l1_parts=_l1_parts(device),
    )


def fact(label: str, value: str) -> Line:
    """'CB 29.8 MiB'."""
    return (*faint(f"{label} "), *ink(value))


def trace_text(device: Device) -> str | None:
    """'22.5 MiB / 64.0 MiB'; None where there is neither a trace nor a region for it."""
    trace = device.memory.trace
    if not trace.held and not trace.capacity:
        return None
    return human(trace.held) + ("" if trace.capacity is None else f" / {human(trace.capacity)}")


def requested_text(device: Device) -> str | None:
    """What was asked for, where lock-step allocation took more."""
    dram = device.memory.dram
    return human(dram.requested) if dram.requested != dram.held else None


def cb_measure(cb: CircularBuffers) -> str:
    """Which number stands in the L1 sum: 'cached', 'resident', 'demand', 'mixed' over processes, or ''."""
    if not cb.used:
        return ""
    if cb.cached is not None:
        return "cached"
    if cb.demand is None and cb.used == cb.resident:
        return "resident"
    return "demand" if cb.used == cb.demand else "mixed"


def _beside_dram(device: Device) -> tuple[Fact, ...]:
    texts = (("requested", requested_text(device)), ("TRACE", trace_text(device)))
    return tuple(_steady(label, text) for label, text in texts if text is not None)


def _l1_parts(device: Device) -> tuple[Fact, ...]:
    memory = device.memory
    circular = f"{human(memory.cb.used)} {cb_measure(memory.cb) or ' ' * len('cached')}"
    return (
        _steady("= L1", human(memory.l1.held)),
        _steady("+ L1_SMALL", human(memory.l1_small.held)),
        _steady("+ CB", circular),
    )


def _steady(label: str, text: str) -> Fact:
    """The amount at the beginning of the text is given the room of any amount."""
    growth = max(AMOUNT - len(" ".join(text.split()[:2])), 0)
    line = fact(label, text.rstrip())
    return Fact(line, len(label) + 1 + len(text) + growth)
