"""Devices of which there is nothing to say: a chip that was used once, and left an empty region behind.

They stay in the data. On a screen they would hide those that are in use.
"""

from __future__ import annotations

from dataclasses import replace

from ttmem.snapshots import Device, Snapshot
from ttmem.views.no_device import IDLE


def without_idle(snapshot: Snapshot) -> tuple[Snapshot, int]:
    """The picture without the devices that nobody uses and whose board is unknown, and their number."""
    named = {one for holder in snapshot.processes for one in holder.devices}
    named |= {one for holder in snapshot.left_behind for one in holder.devices}
    kept = tuple(d for d in snapshot.devices if d.unique_id in named or not _is_blank(d))
    if len(kept) == len(snapshot.devices):
        return snapshot, 0
    host = snapshot.host if kept else {**snapshot.host, IDLE: True}
    return replace(snapshot, devices=kept, host=host), len(snapshot.devices) - len(kept)


def idle_sentence(count: int) -> str:
    """'3 devices that nobody uses, of unknown boards, are not shown'; nothing of none."""
    if not count:
        return ""
    if count == 1:
        return "1 device that nobody uses, of an unknown board, is not shown"
    return f"{count:,} devices that nobody uses, of unknown boards, are not shown"


def _is_blank(device: Device) -> bool:
    memory = device.memory
    measured = device.telemetry is not None and device.telemetry.source
    known = device.board or device.anomalies or memory.dram.capacity or device.l1_capacity
    return not (known or measured) and not (memory.dram.held or memory.trace.held or device.l1_used)
