"""Parts of a snapshot: chosen devices and processes, or those in use."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TypeVar

from ttmem.errors import BadInput, NothingToRead
from ttmem.events import COUNTERS_CLOSED, Amounts
from ttmem.fast_dataclasses import replace
from ttmem.snapshots import Anomaly, Device, LeftBehind, Process, Snapshot
from ttmem.text import clean
from ttmem.views.names import in_order

BY = {"site": "site", "op": "name", "phase": "phase", "pid": "pid"}  # the field of a buffer
# Kinds of anomalies. The first are in the table of what dead processes left behind.
LEFT = ("ghost", "reused_pid", "replaced_program")
DISAGREE = ("totals_disagree", "chips_disagree")
QUIET = (*LEFT, *DISAGREE, "elsewhere", "twice")  # they make no number wrong
NAMED = 8  # devices in one sentence
NO_PROCESS = "no process uses a device"
NO_VISIBLE_PROCESS = "no process that you may see uses a device"
NO_MATCH = "no device matches"
NO_COUNTERS = "no process publishes counters that you may read"
NOTHING_RUNNING = NothingToRead.idle
TRY = {
    "ttmem run -- python model.py": "runs your program and explains its memory",
    "ttmem demo": "shows simulated devices; needs no card",
}
NARROWED = "narrowed"  # key of a snapshot's host: the choice matches no device

Owner = TypeVar("Owner", Process, LeftBehind)


class NotThere(BadInput):
    """The chosen device or process is not in the snapshot (yet)."""


def select(snapshot: Snapshot, devices: Collection[str], pids: Collection[int]) -> Snapshot:
    """Devices by logical or unique id, processes by pid; an empty choice selects everything."""
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
        processes=_owners(snapshot.processes, ids),
        left_behind=_owners(snapshot.left_behind, ids),
        cards=(),
    )


def _some(devices: Sequence[Device]) -> str:
    named = [f"{d.logical_id} ({d.unique_id})" for d in devices[:NAMED]]
    more = [f"and {len(devices) - NAMED:,} more"] * (len(devices) > NAMED)
    return ", ".join([*named, *more]) or "none"


def none_of(snapshot: Snapshot) -> Snapshot:
    """The snapshot without anything but remarks and losses, for a choice that matches nothing."""
    host = {**snapshot.host, NARROWED: True}
    return replace(
        snapshot.without_details(), host=host, devices=(), processes=(), left_behind=(), cards=()
    )


def _of_processes(snapshot: Snapshot, pids: Collection[int]) -> Snapshot:
    """With their devices, and the remarks that are not about other processes."""
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
    """Without anomalies of other processes, unless they make a number of the device wrong."""
    kept = [one for one in device.anomalies if one.pid in (None, *pids) or _distorts(one)]
    return replace(device, anomalies=tuple(kept))


def _distorts(anomaly: Anomaly) -> bool:
    """Whether a number of the device is wrong because of it. A failed allocation changes none."""
    return not is_quiet(anomaly) and anomaly.kind != "allocation_failed"


def is_device(device: Device, wanted: str) -> bool:
    """Whether this is its logical id, unique id or position on a Galaxy."""
    return wanted in (device.unique_id, str(device.logical_id), device.position)


def _owners(owners: tuple[Owner, ...], ids: set[str]) -> tuple[Owner, ...]:
    """The processes on these devices, with what they hold there."""
    return tuple(
        replace(owner, devices=_only(owner.devices, ids))
        for owner in owners
        if not ids.isdisjoint(owner.devices)
    )


def _only(devices: Mapping[str, Amounts], ids: set[str]) -> dict[str, Amounts]:
    return {unique_id: held for unique_id, held in devices.items() if unique_id in ids}


def no_device(snapshot: Snapshot) -> str:
    """Why there is no device to show, and what to try if the host is idle."""
    if snapshot.host.get(NARROWED):
        return NO_MATCH
    if any(remark.kind == COUNTERS_CLOSED for remark in snapshot.remarks):
        return NO_COUNTERS
    return f"{NOTHING_RUNNING}; {NothingToRead.advice}"


def in_use(snapshot: Snapshot) -> tuple[set[str], set[str]]:
    """Unique ids of the devices that processes use, and of those on which dead ones left something."""
    used = {one for process in snapshot.processes for one in process.devices}
    return used, {one for left in snapshot.left_behind for one in left.devices}


def without_idle(snapshot: Snapshot) -> tuple[Snapshot, int]:
    """The snapshot without unused devices whose board is unknown, and how many these are."""
    named = set[str]().union(*in_use(snapshot))
    kept = tuple(d for d in snapshot.devices if d.unique_id in named or not _is_blank(d))
    return replace(snapshot, devices=kept), len(snapshot.devices) - len(kept)


def idle_sentence(count: int) -> str:
    """'3 unused devices of unknown boards are not shown'; empty for none."""
    if not count:
        return ""
    if count == 1:
        return "1 unused device of an unknown board is not shown"
    return f"{count:,} unused devices of unknown boards are not shown"


def is_empty(device: Device) -> bool:
    """Whether nothing is allocated on the device, and nothing is wrong with it."""
    memory = device.memory
    return not (memory.dram.held or memory.trace.held or device.l1_used or device.anomalies)


def _is_blank(device: Device) -> bool:
    measured = device.telemetry is not None and device.telemetry.source
    known = device.board or device.memory.dram.capacity or device.l1_capacity
    return is_empty(device) and not (known or measured)


def is_quiet(anomaly: Anomaly) -> bool:
    """Whether every number is right in spite of it."""
    return anomaly.kind in QUIET
