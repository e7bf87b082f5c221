"""What the Cores page says in words: how full the chosen core is, and how far it is to a clash."""

from __future__ import annotations

from ttmem.views.ink import Line, Span, Style, faint, flow, indent, ink
from ttmem.views.meter import level, percentage
from ttmem.views.monitor.core_details import Core
from ttmem.views.monitor.core_map import CoreMap
from ttmem.views.monitor.core_owner import MARK, Owned
from ttmem.views.monitor.core_pressure import Pressure
from ttmem.views.monitor.core_sizes import core_size
from ttmem.views.monitor.state import Units

_CLOSE = 32 * 1024  # bytes; a few more tiles in one circular buffer, and programs fail


def core_lines(
    core: Core, found: Pressure | None, own: Owned | None, units: Units, width: int
) -> list[Line]:
    """' core 3,4  378.0 KiB of 1,427.3 KiB L1  26%  fullest 0,0 61%', and what else there is to know."""
    name = ink(f"core {core[0]},{core[1]}", Style.TITLE)
    facts: list[Line] = [name]
    if found is None:
        facts.append(faint("L1 in use N/A"))
    else:
        used, most = found.used(core), found.fullest()
        facts += [
            (*ink(core_size(units, used)), *faint(f" of {core_size(units, found.room)} L1")),
            ink(percentage(used, found.room), level(used, found.room)),
            (
                *faint("fullest "),
                *ink(f"{most[0]},{most[1]} {percentage(found.used(most), found.room)}"),
            ),
        ]
    if own is not None:
        facts.append((*faint(f"{MARK} {own.who} "), *ink(core_size(units, own.size))))
    if found is not None and found.processes(core) > 1:
        facts.append(_added_up(core, found, units))
    return indent(flow(facts, max(width - 1, 1)), 1)


def _added_up(core: Core, found: Pressure, units: Units) -> Line:
    return (
        *faint(f"{found.processes(core)} processes, added up as in L1 used "),
        *ink(core_size(units, found.added_up(core))),
    )


def clash_line(found: CoreMap, units: Units) -> Line:
    """The distance, and between what; an overlap is said plainly."""
    distance = found.distance
    if distance is None:
        return (*faint(" to a clash "), *faint("N/A"))
    far = core_size(units, abs(distance))
    top, lowest = found.highest_cb, found.lowest_buffer
    if distance < 0 and top is not None and lowest is not None:
        text = f" OVERLAP of {far}: CBs end at {top:#x}, a buffer begins at {lowest:#x}"
        return ink(text, Style.ALARM)
    if top is None and lowest is None:
        return (*faint(" nothing allocated here: "), *ink(far), *faint(" free"))
    if top is None:
        return (
            *faint(" no circular buffers here: "),
            *ink(far),
            *faint(" below the lowest buffer"),
        )
    if lowest is None:
        return (*faint(" no L1 buffers: "), *ink(far), *faint(" above the circular buffers"))
    style = Style.WARN if distance < _CLOSE else Style.GOOD
    return (
        Span(" "),
        *ink(far, style),
        *faint(f" to a clash: CBs end at {top:#x}, buffers begin at {lowest:#x}"),
    )
