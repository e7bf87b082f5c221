"""How much of all that is held the listed buffers are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ttmem.events import Amounts
from ttmem.sizes import several
from ttmem.snapshots import Device, MemoryUse, Snapshot
from ttmem.views.dump_groups import HOST_MEMORY
from ttmem.views.ink import Line, faint, ink
from ttmem.views.monitor.buffer_list import KIND_STYLES, BufferEntry, counted
from ttmem.views.monitor.chosen_names import chosen_names
from ttmem.views.monitor.facts import amount
from ttmem.views.monitor.page import Look


@dataclass(frozen=True, slots=True)
class _There:
    """What there is to list: bytes by kind, and how many buffers; None: unknown."""

    held: dict[str, int]
    count: int | None
    whose: str = ""

    @property
    def all(self) -> int:
        return sum(self.held.values())


def buffer_facts(
    devices: Sequence[Device], rows: Sequence[BufferEntry], shown: Sequence[BufferEntry], look: Look
) -> list[Line]:
    """`rows`: what the snapshot lists; `shown`: what of it matches the filter.

    All figures are of whom the rows are of: everybody, or the processes of --pid.
    """
    write = look.state.units.text
    listed = counted(rows)
    everybody = _of_devices(devices)
    there = _of_chosen(devices, look) if look.pids else everybody
    facts = [
        _how_many(len(listed), there, _sum(listed) == there.all),
        (*faint("holding "), *ink(write(_sum(listed))), *faint(f" of {write(there.all)}")),
        *(amount(kind, there.held[kind], look, style) for kind, style in KIND_STYLES.items()),
    ]
    if look.state.filter:
        facts.insert(2, amount("matching", _sum(counted(shown)), look))
    if look.pids:
        facts.append(amount("all processes", everybody.all, look))
    if on_host := sum(1 for row in rows if row.kind == HOST_MEMORY):
        facts.append(faint(f"{on_host:,} in host memory, in no sum"))
    return facts


def _of_devices(devices: Sequence[Device]) -> _There:
    uses = {kind: _uses(devices, kind) for kind in KIND_STYLES}
    counts = [use.count for kind in uses.values() for use in kind]
    known = [count for count in counts if count is not None]
    return _There(
        {kind: sum(use.held for use in of) for kind, of in uses.items()},
        sum(known) if len(known) == len(counts) else None,
    )


def _of_chosen(devices: Sequence[Device], look: Look) -> _There:
    """Nobody counts the buffers of one process, but what they hold tells if the list is whole."""
    ids = {device.unique_id for device in devices}
    held = _holdings(look.snapshot, ids)
    sums = {kind: sum(getattr(one, kind.lower()) for one in held) for kind in KIND_STYLES}
    return _There(sums, None, f" of {chosen_names(look.pids)}")


def _holdings(snapshot: Snapshot, ids: set[str]) -> list[Amounts]:
    return [
        held for one in snapshot.processes for device, held in one.devices.items() if device in ids
    ]


def _uses(devices: Sequence[Device], kind: str) -> list[MemoryUse]:
    return [getattr(device.memory, kind.lower()) for device in devices]


def _how_many(listed: int, there: _There, everything: bool) -> Line:
    """`everything`: nothing is held beside what is listed, whoever did not count."""
    if everything or there.count == listed:
        return ink(("1 buffer" if listed == 1 else f"all {listed:,} buffers") + there.whose)
    if there.whose:
        return ink(f"{several(listed, 'listed buffer')}{there.whose}")
    if there.count is None:
        return ink(f"{several(listed, 'buffer')} listed; of some processes only sums are known;")
    if listed < there.count:
        return ink(f"the largest {listed:,} of {there.count:,} buffers")
    return ink(f"all {listed:,} buffers")


def _sum(rows: Sequence[BufferEntry]) -> int:
    return sum(row.held for row in rows)
