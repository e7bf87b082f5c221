"""Parts of a snapshot: chosen devices and processes, or those in use."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ttmem.errors import BadInput, NothingToRead
from ttmem.events import COUNTERS_CLOSED, GHOSTS
from ttmem.fast_dataclasses import replace
from ttmem.sizes import several
from ttmem.snapshots import Anomaly, Device, Snapshot
from ttmem.text import clean
from ttmem.views.names import in_order, used_devices

BY = {"site": "site", "op": "name", "phase": "phase", "pid": "pid"}  # the field of `MadeBy`
TITLES = {
    "site": "CALL SITE",
    "stack": "CALL STACK",
    "op": "OPERATION",
    "phase": "PHASE",
    "pid": "PROCESS",
}
# Kinds of anomalies; those of ghosts are in the table of what dead processes left behind.
DISAGREE = ("totals_disagree", "chips_disagree")
QUIET = (*GHOSTS, *DISAGREE, "elsewhere", "twice")  # they make no number wrong
NAMED = 8  # devices in one sentence
NO_PROCESS = "no process uses a device"
NO_COUNTERS = "no process publishes counters that you may read"
NOTHING_RUNNING = NothingToRead.idle
TRY = {
    "ttmem run -- python model.py": "runs your program and explains its memory",
    "ttmem demo": "shows simulated devices; needs no card",
}
NOT_SHOWN = "not shown"
NARROWED = "narrowed"  # key of a snapshot's host: the choice matches no device


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
    used = without_idle(snapshot)[0].devices
    chosen = set[str]()
    for one in wanted:  # an unused device may have the number of one that is in use
        found = [d.unique_id for d in used if is_device(d, one)]
        chosen.update(found or (d.unique_id for d in snapshot.devices if is_device(d, one)))
    return snapshot.on_devices(chosen)


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

    def distorts(anomaly: Anomaly) -> bool:
        return not is_quiet(anomaly) and anomaly.kind != "allocation_failed"  # that changes none

    kept = (one for one in device.anomalies if one.pid in (None, *pids) or distorts(one))
    return replace(device, anomalies=tuple(kept))


def is_device(device: Device, wanted: str) -> bool:
    """Whether this is its logical id, unique id or position on a Galaxy."""
    return wanted in (device.unique_id, str(device.logical_id), device.position)


def is_recorded(snapshot: Snapshot) -> bool:
    return "recording" in snapshot.host


def no_device(snapshot: Snapshot) -> str:
    """Why there is no device to show, and what to try if the host is idle."""
    if snapshot.host.get(NARROWED):
        return "no device matches"
    if any(remark.kind == COUNTERS_CLOSED for remark in snapshot.remarks):
        return NO_COUNTERS
    if is_recorded(snapshot):
        return "no device was in use at this instant of the recording"
    return f"{NOTHING_RUNNING}; {NothingToRead.advice}"


def no_process(snapshot: Snapshot) -> str:
    """Why there is no process to show, and what to try if the host is idle."""
    if no_device(snapshot) == NO_COUNTERS:
        return "no process that you may see uses a device"
    if is_recorded(snapshot):
        return "no process used a device at this instant of the recording"
    idle = snapshot.devices and not snapshot.host.get(NARROWED)
    return f"{NO_PROCESS}; {NothingToRead.advice}" if idle else NO_PROCESS


def without_idle(snapshot: Snapshot) -> tuple[Snapshot, int]:
    """The snapshot without unused devices whose board is unknown, and how many these are.

    What dead processes left on one is in a table of its own, which needs no device.
    """
    used = used_devices(snapshot)
    kept = tuple(d for d in snapshot.devices if d.unique_id in used or not _is_blank(d))
    return replace(snapshot, devices=kept), len(snapshot.devices) - len(kept)


def idle_sentence(count: int) -> str:
    """'3 unused devices of unknown boards are not shown'; empty for none."""
    what = ("unused device of an unknown board is", "unused devices of unknown boards are")
    return f"{several(count, *what)} {NOT_SHOWN}" if count else ""


def is_empty(device: Device) -> bool:
    """Whether nothing is allocated on the device, and none of its numbers is wrong."""
    memory = device.memory
    wrong = any(not is_quiet(anomaly) for anomaly in device.anomalies)
    return not (memory.dram.held or memory.trace.held or device.l1_used or wrong)


def _is_blank(device: Device) -> bool:
    measured = device.telemetry is not None and device.telemetry.source
    known = device.board or device.memory.dram.capacity or device.l1_capacity
    return is_empty(device) and not (known or measured)


def is_quiet(anomaly: Anomaly) -> bool:
    """Whether every number is right in spite of it."""
    return anomaly.kind in QUIET
