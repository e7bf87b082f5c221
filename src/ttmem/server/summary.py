"""Sentences about what is held, for the log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ttmem.sizes import human
from ttmem.snapshots import LeftBehind, Snapshot
from ttmem.wire.rows import AccountRow


def summary(picture: Snapshot, connections: int, live: int, lost_lines: int) -> Iterator[str]:
    """A line for the whole, one for each device."""
    losses = picture.losses
    yield (
        f"summary: {_count(len(picture.devices), 'device')},"
        f" {_count(len(picture.processes), 'process', 'es')},"
        f" {_count(connections, 'connection')}, {_count(live, 'live entr', 'ies', 'y')},"
        f" {_count(losses.rejected_records, 'record')} rejected,"
        f" {_count(losses.dropped_events, 'event')} dropped"
        + (f", {_count(lost_lines, 'line')} of output dropped" if lost_lines else "")
    )
    for device in picture.devices:
        memory = device.memory
        yield (
            f"device {device.logical_id} ({device.unique_id}): DRAM {human(memory.dram.held)},"
            f" L1 used {human(device.l1_used)} of {human(device.l1_capacity)}"
            f" (L1 {human(memory.l1.held)}, L1_SMALL {human(memory.l1_small.held)},"
            f" CB {human(memory.cb.used)}), TRACE {human(memory.trace.held)};"
            f" kernels, in no sum: {human(device.kernels.footprint.total)} if resident everywhere"
        )


def _count(number: int, word: str, many: str = "s", one: str = "") -> str:
    return f"{number:,} {word}{one if number == 1 else many}"


def released(left: LeftBehind | None, rows: Iterable[AccountRow] = ()) -> str:
    """What a dead process gave back, and by its accounts how many kernels it had loaded."""
    parts = [
        f"{human(held.dram)} DRAM, {human(held.l1_used)} L1 used, {human(held.trace)} TRACE on device {device}"
        for device, held in (left.devices.items() if left else ())
    ]
    rows = list(rows)
    if kernels := sum(sum(row.kernels) for row in rows):
        footprint = human(sum(sum(row.footprint) for row in rows))
        parts.append(f"{_count(kernels, 'kernel')}, {footprint} if resident everywhere")
    return "; ".join(parts) or "nothing"
