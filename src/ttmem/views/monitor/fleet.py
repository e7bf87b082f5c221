"""Many devices in little room: a cell for each, with its name, DRAM and L1 in percent."""

from __future__ import annotations

from collections.abc import Sequence

from ttmem.views.ink import Line, Span, Style, clip_line, faint, ink, pad
from ttmem.views.meter import PERCENT
from ttmem.views.monitor.device_area import DeviceArea, Place
from ttmem.views.monitor.device_parts import DeviceParts
from ttmem.views.monitor.list_lines import GUTTER, footer
from ttmem.views.names import DeviceNames
from ttmem.views.text import columns

BARS = (24, 18, 12, 8, 6, 4, 0)  # cells; the longest with which all devices fit
GAP = 2
TOO_WIDE = 1 << 30  # rows
TITLE = "each device: its id, DRAM (D) and L1 (L) in percent of what can be allocated"


def fleet(
    devices: Sequence[DeviceParts], width: int, height: int, chosen: int | None
) -> DeviceArea:
    """At most `height` lines; if not all devices fit, those around the chosen one."""
    names = DeviceNames(one.device for one in devices)
    titles = [names.some([one.device.unique_id]) for one in devices]
    name = max(map(columns, titles))
    titled = height > 3
    room = height - titled
    bar = next((bar for bar in BARS if _rows(devices, width, name, bar) <= room), 0)
    across = _across(width, name, bar)
    cells = [
        _cell(one, title, name, bar, at == chosen)
        for at, (one, title) in enumerate(zip(devices, titles, strict=True))
    ]
    rows = [cells[at : at + across] for at in range(0, len(cells), across)]
    hides = len(rows) > room
    shown = max(room - hides, 1)
    first = max(0, min((chosen or 0) // across - shown // 2, len(rows) - shown))
    lines = [clip_line(faint(" " * GUTTER + TITLE), width)] if titled else []
    places = []
    for row in range(first, min(first + shown, len(rows))):
        for column in range(len(rows[row])):
            start = column * (_width(name, bar) + GAP)
            places.append(
                Place(row * across + column, len(lines), start, start + _width(name, bar))
            )
        lines.append(clip_line(_joined(rows[row], _width(name, bar)), width))
    if hides and len(lines) < height:
        below = len(devices) - (first + shown) * across
        lines.append(clip_line(footer(first * across, below, None, devices[0].look.ascii), width))
    return DeviceArea(lines, places, across)


def _cell(one: DeviceParts, title: str, name: int, bar: int, chosen: bool) -> Line:
    room = bar + 1 + PERCENT if bar else PERCENT
    style = Style.CURSOR if chosen else Style.LABEL
    return (
        *ink(">" if chosen else " ", Style.CURSOR if chosen else Style.PLAIN),
        *pad(ink(title, style), name, right=True),
        *faint(" D "),
        *one.dram_meter(room, alone=True),
        *faint(" L "),
        *one.l1_meter(room, alone=True),
    )


def _joined(cells: Sequence[Line], width: int) -> Line:
    return tuple(span for cell in cells for span in (*pad(cell, width), Span(" " * GAP)))


def _width(name: int, bar: int) -> int:
    return GUTTER + name + 2 * (len(" D ") + (bar + 1 + PERCENT if bar else PERCENT))


def _across(width: int, name: int, bar: int) -> int:
    return max((width + GAP) // (_width(name, bar) + GAP), 1)


def _rows(devices: Sequence[DeviceParts], width: int, name: int, bar: int) -> int:
    if bar and _width(name, bar) > width:
        return TOO_WIDE
    return -(-len(devices) // _across(width, name, bar))
