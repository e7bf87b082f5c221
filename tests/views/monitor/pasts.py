"""Histories for pages: waves that end in what the snapshot says, with a gap in them."""

from __future__ import annotations

from collections.abc import Mapping

from tests.views.builders import NOW
from tests.views.monitor.page_pictures import look_at
from ttmem.snapshots import Snapshot
from ttmem.views.monitor.state import Look, Series, State
from ttmem.views.names import in_order

SECOND = 1_000_000_000
LENGTH = 400  # seconds
GAP = range(100, 150)  # seconds ago, without samples
PERIOD = 120


def past(snapshot: Snapshot) -> Mapping[str, Series]:
    out = {}
    for device in snapshot.devices:
        memory = device.memory
        ends = {
            "dram": memory.dram.held,
            "l1": memory.l1.held,
            "l1_small": memory.l1_small.held,
            "trace": memory.trace.held,
            "cb": memory.cb.used,
            "l1_used": device.l1_used,
        }
        ago = [seconds for seconds in range(LENGTH - 1, -1, -1) if seconds not in GAP]
        series = {name: [_wave(end, seconds) for seconds in ago] for name, end in ends.items()}
        out[device.unique_id] = {
            "time_ns": [NOW - seconds * SECOND for seconds in ago],
            **series,
        }
    return out


def _wave(end: int, seconds: int) -> int:
    """Between a third of `end` and all of it, in whole numbers only."""
    place = seconds % PERIOD
    down = min(place, PERIOD - place)
    return end - end * down // (PERIOD * 3 // 4)


def look_back(
    snapshot: Snapshot, width: int = 120, height: int = 36, state: State | None = None
) -> Look:
    """A look with a past."""
    ordered = in_order(snapshot)
    return look_at(ordered, width, height, state)._replace(history=past(ordered))
