"""Labelled numbers above a page's list, and the name of the device that it is about."""

from __future__ import annotations

from collections.abc import Iterable

from ttmem.snapshots import Device
from ttmem.views.ink import Line, Style, clip_line, faint, flow, indent, ink
from ttmem.views.monitor.page import Look
from ttmem.views.names import logical, model, short_pci


def amount(label: str, count: int | None, look: Look, style: Style = Style.PLAIN) -> Line:
    """'DRAM 4.5 GiB' in the user's units."""
    return _labelled(label, None if count is None else look.state.units.text(count), style)


def counter(label: str, count: int | None, style: Style = Style.PLAIN) -> Line:
    """'dispatches 48,120'."""
    return _labelled(label, None if count is None else f"{count:,}", style)


def _labelled(label: str, value: str | None, style: Style) -> Line:
    return (*faint(f"{label} "), *(faint("N/A") if value is None else ink(value, style)))


def fact_lines(facts: Iterable[Line], look: Look, most: int) -> list[Line]:
    """The facts in at most `most` lines of the page's width."""
    lines = indent(flow(facts, max(look.width - 1, 1)), 1)[: max(most, 0)]
    return [clip_line(line, look.width) for line in lines]


def device_title(device: Device, look: Look) -> Line:
    """' device 0  n300 wormhole  9223372036854000000  01:00.0  1 of 4 (Tab)'."""
    devices = look.snapshot.devices
    parts = [model(device), device.unique_id, *filter(None, [short_pci(device)])]
    place = f"{devices.index(device) + 1} of {len(devices)} (Tab)" if len(devices) > 1 else ""
    line = (
        *ink(f" device {logical(device)}", Style.LABEL),
        *ink("".join(f"  {part}" for part in parts)),
        *faint(f"  {place}" if place else ""),
    )
    return clip_line(line, look.width)
