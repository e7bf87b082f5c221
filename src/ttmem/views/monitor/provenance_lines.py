"""Where the numbers of a device come from, and what they are known to miss."""

from __future__ import annotations

from ttmem.snapshots import Device
from ttmem.views.ink import Line, Style, clip_line, faint, ink


def provenance_lines(device: Device, width: int) -> list[Line]:
    """One line for each number that says so; the cut shows."""
    if not device.provenance:
        return []
    room = max(map(len, device.provenance))
    lines: list[Line] = [clip_line(ink(" WHERE FROM", Style.TITLE), width)]
    for name, one in device.provenance.items():
        misses = ink(f"; misses: {one.misses}") if one.misses else ()
        told = (*faint(f" {name.ljust(room)}  {one.source}: "), *ink(one.method), *misses)
        lines.append(clip_line(told, width))
    return lines
