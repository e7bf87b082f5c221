"""How much of all that is held the listed buffers are."""

from __future__ import annotations

from collections.abc import Sequence

from ttmem.snapshots import Device, MemoryUse
from ttmem.views.dump_groups import HOST_MEMORY
from ttmem.views.ink import Line, faint, ink
from ttmem.views.monitor.buffer_list import KIND_STYLES, BufferEntry, counted
from ttmem.views.monitor.facts import amount
from ttmem.views.monitor.page import Look


def buffer_facts(
    devices: Sequence[Device], rows: Sequence[BufferEntry], shown: Sequence[BufferEntry], look: Look
) -> list[Line]:
    """`rows`: what the snapshot lists; `shown`: what of it matches the filter."""
    write = look.state.units.text
    listed = counted(rows)
    uses = {kind: _uses(devices, kind) for kind in KIND_STYLES}
    held = sum(use.held for kind in uses.values() for use in kind)
    facts = [
        _how_many(
            len(listed),
            [use.count for kind in uses.values() for use in kind],
            _sum(listed) == held,
        ),
        (*faint("holding "), *ink(write(_sum(listed))), *faint(f" of {write(held)}")),
        *(
            amount(kind, sum(use.held for use in uses[kind]), look, style)
            for kind, style in KIND_STYLES.items()
        ),
    ]
    if look.state.filter:
        facts.insert(2, amount("matching", _sum(counted(shown)), look))
    if on_host := sum(1 for row in rows if row.kind == HOST_MEMORY):
        facts.append(faint(f"{on_host:,} in host memory, in no sum"))
    return facts


def _uses(devices: Sequence[Device], kind: str) -> list[MemoryUse]:
    return [getattr(device.memory, kind.lower()) for device in devices]


def _how_many(listed: int, counts: Sequence[int | None], everything: bool) -> Line:
    """`everything`: nothing is held beside what is listed, whoever did not count."""
    known = [count for count in counts if count is not None]
    if len(known) < len(counts) and not everything:
        return ink(f"{listed:,} buffers listed; of some processes only sums are known;")
    there = listed if everything else sum(known)
    if listed < there:
        return ink(f"the largest {listed:,} of {there:,} buffers")
    return ink("1 buffer" if listed == 1 else f"all {listed:,} buffers")


def _sum(rows: Sequence[BufferEntry]) -> int:
    return sum(row.held for row in rows)
