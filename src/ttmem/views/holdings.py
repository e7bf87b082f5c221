"""What processes hold, over all their devices."""

from __future__ import annotations

from collections.abc import Iterable

from ttmem.snapshots import Device, Held

KINDS = (("DRAM", "dram"), ("L1", "l1"), ("L1_SMALL", "l1_small"), ("TRACE", "trace"), ("CB", "cb"))


def amounts(held: Held) -> tuple[int, ...]:
    """In the order of KINDS."""
    return (held.dram, held.l1, held.l1_small, held.trace, held.cb)


def together(holdings: Iterable[Held]) -> Held:
    """The sum."""
    dram = l1 = l1_small = trace = cb = 0
    for held in holdings:  # 64 processes on 32 devices are 2,048 of them, at every refresh
        dram += held.dram
        l1 += held.l1
        l1_small += held.l1_small
        trace += held.trace
        cb += held.cb
    return Held(dram, l1, l1_small, trace, cb)


def on_devices(devices: Iterable[Device]) -> Held:
    """What the devices themselves say, in the same measure."""
    return together(
        Held(m.dram.held, m.l1.held, m.l1_small.held, m.trace.held, m.cb.used)
        for m in (device.memory for device in devices)
    )


def size(held: Held) -> int:
    """All kinds, for sorting only: DRAM and L1 are different memories."""
    return held.dram + held.trace + held.l1_used
