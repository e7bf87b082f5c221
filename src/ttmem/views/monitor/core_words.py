"""What the Cores page says in words: how full the chosen core is, and how far it is to a clash."""

from __future__ import annotations

from ttmem.views.ink import Line, Span, Style, faint, ink
from ttmem.views.meter import level, percentage
from ttmem.views.monitor.core_details import Core
from ttmem.views.monitor.core_map import CoreMap
from ttmem.views.monitor.core_pressure import Pressure
from ttmem.views.monitor.state import Units

_CLOSE = 32 * 1024  # bytes; a few more tiles in one circular buffer, and programs fail


def core_line(core: Core, found: Pressure | None, units: Units) -> Line:
    """' core 3,4  612.0 KiB of 1.4 MiB  43%  fullest 0,0  61%'."""
    name = ink(f" core {core[0]},{core[1]}", Style.TITLE)
    if found is None:
        return (*name, *faint("  L1 in use N/A"))
    used, most = found.used(core), found.fullest()
    return (
        *name,
        *ink(f"  {units.text(used)}"),
        *faint(f" of {units.text(found.room)} L1  "),
        *ink(percentage(used, found.room), level(used, found.room)),
        *faint("  fullest "),
        *ink(f"{most[0]},{most[1]} {percentage(found.used(most), found.room)}"),
    )


def clash_line(found: CoreMap) -> Line:
    """The distance in KiB, and between what; an overlap is said plainly."""
    distance = found.distance
    if distance is None:
        return (*faint(" to a clash "), *faint("N/A"))
    kib = f"{abs(distance) / 1024:.1f} KiB"
    top, lowest = found.highest_cb, found.lowest_buffer
    if distance < 0 and top is not None and lowest is not None:
        text = f" OVERLAP of {kib}: CBs end at {top:#x}, a buffer begins at {lowest:#x}"
        return ink(text, Style.ALARM)
    if top is None and lowest is None:
        return (*faint(" nothing allocated here: "), *ink(kib), *faint(" free"))
    if top is None:
        return (
            *faint(" no circular buffers here: "),
            *ink(kib),
            *faint(" below the lowest buffer"),
        )
    if lowest is None:
        return (*faint(" no L1 buffers: "), *ink(kib), *faint(" above the circular buffers"))
    style = Style.WARN if distance < _CLOSE else Style.GOOD
    return (
        Span(" "),
        *ink(kib, style),
        *faint(f" to a clash: CBs end at {top:#x}, buffers begin at {lowest:#x}"),
    )
