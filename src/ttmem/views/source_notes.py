"""What the sources of a picture remarked, and what they cannot see."""

from __future__ import annotations

from ttmem.snapshots import Anomaly, Snapshot
from ttmem.views.ink import Style
from ttmem.views.names import DeviceNames
from ttmem.views.note import Note

LEFT = (
    "ghost",
    "reused_pid",
    "replaced_program",
)  # the table of what dead processes left behind has them
DISAGREE = "totals_disagree", "chips_disagree"
QUIET = (*LEFT, *DISAGREE, "elsewhere", "twice")  # no number of the picture is wrong by it
MANY_DISAGREE = (
    "the totals that the runtime stored are not the sum of the live processes; the processes count"
)
COUNTERS = "shared memory"
THREADS_SEEN = "shared memory v4"
BLIND = "dataflow buffers, kernel code"
SEE = "(docs/shared-memory.md)"
BY_COUNTERS = "requested bytes, by the counters of stock ttnn, which do not see:"


def remark_notes(snapshot: Snapshot) -> list[Note]:
    """Of the host: files that were skipped, processes that publish nothing."""
    return [Note("!", Style.WARN, remark.text) for remark in snapshot.remarks]


def quiet_notes(snapshot: Snapshot) -> list[Note]:
    """Of devices: what is odd in a region, and changes no sum."""
    names = DeviceNames(snapshot.devices)
    left = {left.pid for left in snapshot.left_behind}
    where: dict[str, list[str]] = {}
    disagreeing: dict[str, list[str]] = {}
    for device in snapshot.devices:
        for anomaly in device.anomalies:
            if anomaly.kind in DISAGREE:
                disagreeing.setdefault(device.unique_id, []).append(anomaly.text)
            elif anomaly.kind in QUIET and not (anomaly.kind in LEFT and anomaly.pid in left):
                where.setdefault(anomaly.text, []).append(device.unique_id)
    if len(disagreeing) == 1:
        ((unique_id, texts),) = disagreeing.items()
        for text in texts:
            where[text] = [unique_id]
    elif disagreeing:
        where[MANY_DISAGREE] = list(disagreeing)
    return [
        Note("-", Style.FAINT, f"{names.sentence(devices)}: {text}")
        for text, devices in where.items()
    ]


def is_quiet(anomaly: Anomaly) -> bool:
    """Does it leave every number of the picture right?"""
    return anomaly.kind in QUIET


def blind_notes(snapshot: Snapshot) -> list[Note]:
    """What the counters of the stock runtime cannot see; provenance has it in full."""
    seen: dict[str, list[str]] = {}
    for device in snapshot.devices:
        dram = device.provenance.get("dram")
        if dram is not None and COUNTERS in dram.source:
            blind = BLIND if device.kernels.counted is None else BLIND.partition(",")[0]
            if THREADS_SEEN not in dram.source:
                blind = f"buffers of other threads, {blind}"
            seen.setdefault(f"{blind} {SEE}", []).append(device.unique_id)
    names = DeviceNames(snapshot.devices)
    return [
        Note("-", Style.FAINT, f"{names.sentence(devices)}: {BY_COUNTERS} {blind}")
        for blind, devices in seen.items()
    ]
