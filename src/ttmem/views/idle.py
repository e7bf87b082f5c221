"""What is said where no device, or no process, is there to show."""

from __future__ import annotations

from dataclasses import replace

from ttmem.snapshots import Device, Snapshot
from ttmem.sources.closed_files import COUNTERS_CLOSED
from ttmem.views.text import clean

NO_PROCESS = "no process reports"
NO_REPORT = (
    "no device has been reported yet; start the application with TT_ALLOC_TRACKING_ENABLED=1"
)
NARROWED = "narrowed"  # of a picture's host: devices were left out, none fits what was asked for
IDLE = "idle"  # of a picture's host: all devices were left out, as nobody uses them
NOT_IN_USE = "no device is in use"
NONE_OF_THEM = "none of the devices that there are was asked for"


def no_device(snapshot: Snapshot) -> str:
    """In the words of the picture's source."""
    if snapshot.host.get(NARROWED):
        return NONE_OF_THEM
    if snapshot.host.get(IDLE):
        return NOT_IN_USE
    folder = snapshot.host.get("shared_memory")
    if folder is None:
        return NO_REPORT
    counters = f"no region of stock ttnn (tt_device_*_memory) in {clean(str(folder))}"
    if any(remark.kind == COUNTERS_CLOSED for remark in snapshot.remarks):
        counters += " can be read"
    return f"{NO_REPORT}; {counters}" if snapshot.host.get("server") else counters


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
