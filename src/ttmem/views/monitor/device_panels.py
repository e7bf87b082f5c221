"""The charts of one device: each kind of memory, as many as fit, the others a key away."""

from __future__ import annotations

from itertools import zip_longest

from ttmem.snapshots import Device, MemoryUse
from ttmem.views.ink import EMPTY, Line, Span, pad
from ttmem.views.monitor.kinds import CB, DRAM, L1, L1_SMALL, L1_USED, TRACE, Kind
from ttmem.views.monitor.page import Look
from ttmem.views.monitor.panel import Subject, panel

GAP = 2
TWO, THREE = 76, 150  # columns from which so many stand beside each other
LEAST, MOST = 4, 14  # lines of a chart
SCROLL = "Device charts"  # its cursor: how far the charts were turned


def subjects(device: Device) -> list[Subject]:
    """The sums first, then what they are made of; kinds that were never used are last."""
    memory = device.memory
    used = Subject(
        L1_USED, device.l1_used, device.l1_capacity, device.l1_peak, device.l1_peak_time_ns
    )
    parts = [
        Subject(CB, memory.cb.used, None, bounded=False),
        _subject(L1, memory.l1),
        _subject(L1_SMALL, memory.l1_small),
        _subject(TRACE, memory.trace),
    ]
    unused = [one for one in parts if not one.held and not one.peak]
    return [_subject(DRAM, memory.dram), used, *(p for p in parts if p not in unused), *unused]


def _subject(kind: Kind, use: MemoryUse) -> Subject:
    return Subject(kind, use.held, use.capacity, use.peak, use.peak_time_ns)


def device_panels(device: Device, look: Look, height: int) -> list[Line]:
    """At most `height` lines; nothing if a chart does not fit."""
    every = subjects(device)
    across = 3 if look.width >= THREE else 2 if look.width >= TWO else 1
    down = min(max(height // (LEAST + 2), 1), -(-len(every) // across))
    each = min(height // down, MOST)
    if each < LEAST:
        return []
    turned = look.state.of(SCROLL).cursor % len(every)
    shown = (every[turned:] + every[:turned])[: across * down]
    room = (look.width - 1 - GAP * (across - 1)) // across
    series = look.history.get(device.unique_id, {})
    panels = [panel(one, series, look, room, each) for one in shown]
    lines: list[Line] = []
    for at in range(0, len(panels), across):
        for cells in zip_longest(*panels[at : at + across], fillvalue=EMPTY):
            lines.append(_row(cells, room))
    return lines


def _row(cells: tuple[Line, ...], room: int) -> Line:
    spans: list[Span] = []
    for cell in cells:
        spans += [Span(" " * (GAP if spans else 1)), *pad(cell, room)]
    return tuple(spans)
