"""The words for what does not add up."""

from __future__ import annotations

from enum import IntEnum

from ttmem.events import Event, KernelType, MemoryKind, Op, Remark
from ttmem.sizes import human
from ttmem.snapshots import Anomaly
from ttmem.wire.rows import FindingRow


class FindingCode(IntEnum):
    """Numbered as in `native/ledger.hpp`."""

    UNKNOWN_FREE = 1
    BUFFER_RESIZED = 2
    UNKNOWN_CB_FREE = 3
    UNKNOWN_UNLOAD = 4
    KERNEL_RESIZED = 5
    TABLE_FULL = 6
    STATUS_BACKWARDS = 7
    CB_MAP_FULL = 8
    REJECTED = 9
    DOUBLE_FREE = 10
    DOUBLE_CB_FREE = 11
    DOUBLE_UNLOAD = 12


_SENTENCES = {
    FindingCode.UNKNOWN_FREE: "buffers freed that were never seen allocated (older than the server, or freed long ago)",
    FindingCode.BUFFER_RESIZED: "buffer ids reused with another size while alive (the old buffers were ended)",
    FindingCode.UNKNOWN_CB_FREE: "circular buffers freed that were never seen allocated",
    FindingCode.UNKNOWN_UNLOAD: "kernels or programs unloaded that were never seen loaded",
    FindingCode.KERNEL_RESIZED: "kernel ids reused with another size while alive (the old kernels were ended)",
    FindingCode.TABLE_FULL: "reports for which the table of live entries had no room (they are in no sum)",
    FindingCode.STATUS_BACKWARDS: "programs whose binary status went backwards",
    FindingCode.CB_MAP_FULL: "circular-buffer maps beyond the limit (the demand counts, not the union)",
    FindingCode.DOUBLE_FREE: "buffers freed that were freed already, and not allocated since",
    FindingCode.DOUBLE_CB_FREE: "circular buffers freed that were freed already, and not allocated since",
    FindingCode.DOUBLE_UNLOAD: "kernels or programs unloaded that were unloaded already, and not loaded since",
    FindingCode.REJECTED: "reports with impossible values (they are in no sum)",
}


def finding_anomaly(row: FindingRow, who: str, pid: int) -> Anomaly:
    """One sort of trouble that one process made on one device."""
    finding = FindingCode(row.anomaly)
    times = "once" if row.times == 1 else f"{row.times:,} times"
    text = f"{who}: {_SENTENCES[finding]}: {times}, last id {row.last_id:#x}"
    return Anomaly(finding.name.lower(), text, pid, row.bytes or None)


def remark_anomaly(remark: Remark) -> Anomaly:
    """What the reader of a source found."""
    return Anomaly(remark.kind, remark.text, remark.pid, remark.bytes)


def over_capacity(
    what: str, used: int, capacity: int, culprit: tuple[str, int, int] | None, demand: int
) -> Anomaly:
    """Reports that add up to more than the hardware has. `demand`: bytes of CBs that were counted by demand."""
    text = (
        f"{what}: reports add up to {human(used)}, {human(used - capacity)} more than the"
        f" {human(capacity)} that can be allocated"
    )
    if culprit:
        text += f"; {culprit[0]} holds most of it, {human(culprit[2])}"
    if demand:
        text += (
            f"; {human(demand)} of it are circular buffers whose cores are unknown, so that all cached programs are"
            " added up although they share addresses"
        )
    return Anomaly("over_capacity", text, culprit[1] if culprit else None, used - capacity)


def peak_over_capacity(what: str, peak: int, capacity: int, largest: int = 0) -> Anomaly:
    """They did so once, or less can be allocated since: `largest` was in force before."""
    if peak <= largest:
        text = (
            f"{what}: the peak of {human(peak)} is of a time when {human(largest)} could be allocated;"
            f" who has the device open now set aside {human(capacity)}"
        )
    else:
        text = (
            f"{what}: the peak of {human(peak)} is {human(peak - capacity)} above the {human(capacity)} that can be"
            " allocated now"
        )
    return Anomaly("peak_over_capacity", text, bytes=peak - capacity)


_REASONS = {
    1: "its type is unknown",
    2: "its kind is unknown",
    3: "its size is 0",
    4: "its size is larger than 1 TiB",
    5: "its core set was never declared, or does not divide its size",
}


def rejection(reason: int, record: bytes, who: str) -> str:
    """The log line for an event that was not accounted."""
    event = Event.unpack(record)
    op = Op(event.op).name if event.op in set(Op) else f"type {event.op}"
    advice = ""
    if reason == 3 and event.op == Op.KERNEL_LOAD:
        advice = (
            " (the runtime reports the size in the config buffer; the size of the binary is wanted)"
        )
    elif reason == 2:
        known = KernelType if event.op == Op.KERNEL_LOAD else MemoryKind
        advice = f" ({event.kind}; known are {', '.join(f'{k.value} {k.name}' for k in known)})"
    return f"{op} on device {event.device} of {event.size} bytes rejected: {_REASONS[reason]}{advice}; from {who}"
