"""The kernel-config ring of a device in one line."""

from __future__ import annotations

from ttmem.snapshots import Ring
from ttmem.views.ink import Line, Style, faint, ink
from ttmem.views.meter import PERCENT, is_over, meter
from ttmem.views.monitor.facts import counter
from ttmem.views.monitor.page import Look

BAR = 24  # columns of the bar with its percentage, where there is room


def ring_facts(ring: Ring, look: Look) -> list[Line]:
    """'ring ████···· 38% 2.0 MiB / 4.3 MiB', its programs, wraps and syncs."""
    if ring.occupied is None and ring.capacity is None:
        return [faint("ring N/A: no client reports it")]
    write = look.state.units.text
    occupied = faint("N/A") if ring.occupied is None else _filled(ring.occupied, ring, look)
    amounts = (*faint("ring "), *occupied, *faint(f" / {write(ring.capacity)}"))
    return [
        amounts,
        counter("programs", ring.programs),
        counter("wraps", ring.wraps),
        counter("syncs", ring.syncs),
    ]


def _filled(occupied: int, ring: Ring, look: Look) -> Line:
    # A ring that is full is at work: programs overwrite the oldest. Only more than full is wrong.
    style = Style.ALARM if is_over(occupied, ring.capacity) else Style.RING
    text = ink(look.state.units.text(occupied), style)
    room = min(BAR, look.width // 4)
    if ring.capacity is None or room <= PERCENT:
        return text
    return (*meter(occupied, ring.capacity, room, style), *ink("  "), *text)
