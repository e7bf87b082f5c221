"""A part of a picture: some devices, some processes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from ttmem.errors import BadInput
from ttmem.events import Amounts
from ttmem.snapshots import Device, LeftBehind, Process, Snapshot
from ttmem.sources.shm import COUNTERS_CLOSED
from ttmem.text import clean
from ttmem.views.names import in_order
from ttmem.views.notes import is_quiet

NAMED = 8  # devices in one sentence
NO_PROCESS = "no process reports"
NO_REPORT = (
    "no device has been reported yet; start the application with TT_ALLOC_TRACKING_ENABLED=1"
)
NARROWED = "narrowed"  # of a picture's host: devices were left out, none fits what was asked for
IDLE = "idle"  # of a picture's host: all devices were left out, as nobody uses them
NOT_IN_USE = "no device is in use"
NONE_OF_THEM = "none of the devices that there are was asked for"

Holder = TypeVar("Holder", Process, LeftBehind)


class NotThere(BadInput):
    """The device or process that was asked for is not in the picture (yet)."""


def select(snapshot: Snapshot, devices: Collection[str], pids: Collection[int]) -> Snapshot:
    """Devices by logical or unique id, processes by pid; an empty choice is everything."""
    if devices:
        snapshot = _on_devices(snapshot, devices)
    if pids:
        snapshot = _of_processes(snapshot, pids)
    return snapshot


def _on_devices(snapshot: Snapshot, wanted: Collection[str]) -> Snapshot:
    for one in wanted:
        if not any(is_device(device, one) for device in snapshot.devices):
            known = clean(_some(in_order(snapshot).devices))
            raise NotThere(f"no process has reported device {one!r}; known are: {known}")
    chosen = tuple(d for d in snapshot.devices if any(is_device(d, one) for one in wanted))
    ids = {device.unique_id for device in chosen}
    return replace(
        snapshot.with_rows_on(ids),
        devices=chosen,
        processes=_holders(snapshot.processes, ids),
        left_behind=_holders(snapshot.left_behind, ids),
        cards=(),
    )


def _some(devices: Sequence[Device]) -> str:
    told = [f"{d.logical_id} ({d.unique_id})" for d in devices[:NAMED]]
    more = [f"and {len(devices) - NAMED:,} more"] * (len(devices) > NAMED)
    return ", ".join([*told, *more]) or "none"


def none_of(snapshot: Snapshot) -> Snapshot:
    """Where nothing is there of what was asked for; what there is otherwise is kept from nobody."""
    host = {**snapshot.host, NARROWED: True}
    return replace(
        snapshot.without_details(), host=host, devices=(), processes=(), left_behind=(), cards=()
    )


def _of_processes(snapshot: Snapshot, pids: Collection[int]) -> Snapshot:
    """With the devices that they use, and what is remarked on these, unless it is of others."""
    processes = tuple(process for process in snapshot.processes if process.pid in pids)
    left_behind = tuple(left for left in snapshot.left_behind if left.pid in pids)
    missing = (
        set(pids) - {process.pid for process in processes} - {left.pid for left in left_behind}
    )
    if missing:
        raise NotThere(f"no process {min(missing)} has reported anything")
    used = {one for process in processes for one in process.devices}
    used |= {one for left in left_behind for one in left.devices}
    return replace(
        snapshot.with_rows_of(pids),
        devices=tuple(_of_them(d, pids) for d in snapshot.devices if d.unique_id in used),
        host=snapshot.host if used else {**snapshot.host, NARROWED: True},
        remarks=tuple(one for one in snapshot.remarks if one.pid in (None, *pids)),
        processes=processes,
        left_behind=left_behind,
        cards=(),
    )


def _of_them(device: Device, pids: Collection[int]) -> Device:
    """What is odd of other processes goes, unless a number of the device is wrong by it."""
    told = [one for one in device.anomalies if one.pid in (None, *pids) or not is_quiet(one)]
    return replace(device, anomalies=tuple(told))


def is_device(device: Device, wanted: str) -> bool:
    """The device has this logical or unique id, or this place on a Galaxy."""
    return wanted in (device.unique_id, str(device.logical_id), device.position)


def _holders(holders: tuple[Holder, ...], ids: set[str]) -> tuple[Holder, ...]:
    """Those who hold something on these devices, with what they hold there."""
    return tuple(
        replace(holder, devices=_only(holder.devices, ids))
        for holder in holders
        if not ids.isdisjoint(holder.devices)
    )


def _only(devices: Mapping[str, Amounts], ids: set[str]) -> dict[str, Amounts]:
    return {unique_id: held for unique_id, held in devices.items() if unique_id in ids}


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
