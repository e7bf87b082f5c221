"""The sums over all devices of the host."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ttmem.snapshots import Device
from ttmem.views.ink import Line, Span, Style, clip_line, faint, flow, ink
from ttmem.views.meter import PERCENT, is_over
from ttmem.views.monitor.amounts import Pair, of_limit
from ttmem.views.monitor.kinds import DRAM, L1, Kind
from ttmem.views.monitor.stacked_bar import stacked_meter
from ttmem.views.monitor.state import Units

BARS = (16, 8, 0)


def dram_total(devices: Iterable[Device]) -> Pair:
    """Used, and the capacity if that of each device is known."""
    return _sum((one.memory.dram.held, one.memory.dram.capacity) for one in devices)


def l1_total(devices: Iterable[Device]) -> Pair:
    """The same of L1 with L1_SMALL and circular buffers."""
    return _sum((one.l1_used, one.l1_capacity) for one in devices)


def totals_line(devices: Sequence[Device], units: Units, width: int, ascii: bool) -> Line:
    """'HOST 4 devices  DRAM 18.0 GiB / 48.0 GiB ███··  38%  L1 ...', with bars if they fit."""
    count = "1 device" if len(devices) == 1 else f"{len(devices):,} devices"
    title = (*ink("HOST ", Style.TITLE), *ink(count))
    over = sum(_is_over(one) for one in devices)
    alarm = [ink(f"{over:,} over capacity", Style.ALARM)] if over else []
    pairs = ((DRAM, dram_total(devices)), (L1, l1_total(devices)))
    for bar in BARS:
        sums = [_figure(kind, pair, units, bar, ascii) for kind, pair in pairs]
        for facts in ([title, *alarm, *sums], [*alarm, *sums])[: 1 if bar else 2]:
            lines = flow(facts, width)
            if len(lines) == 1:
                return lines[0]
    return clip_line(tuple(span for line in lines for span in (*line, Span("  "))), width)


def _figure(kind: Kind, pair: Pair, units: Units, bar: int, ascii: bool) -> Line:
    used, capacity = pair[0] or 0, pair[1]
    line = (*faint(f"{kind.title} "), *of_limit(units, used, capacity))
    if capacity is None:
        return line
    room = bar + 1 + PERCENT if bar else PERCENT
    part = (used, kind.bar_sign(ascii), kind.style)
    return (*line, Span(" "), *stacked_meter((part,), capacity, room, ascii))


def _sum(pairs: Iterable[tuple[int, int | None]]) -> Pair:
    used, capacity = 0, 0
    known = True
    for one, limit in pairs:
        used += one
        capacity += limit or 0
        known &= limit is not None
    return used, capacity if known else None


def _is_over(device: Device) -> bool:
    dram = device.memory.dram
    return is_over(dram.held, dram.capacity) or is_over(device.l1_used, device.l1_capacity)
