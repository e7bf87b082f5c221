"""What stands under the tables: anomalies, losses, why numbers are missing, hints."""

from __future__ import annotations

from collections.abc import Mapping

from ttmem.snapshots import Anomaly, Device, Snapshot
from ttmem.views.hint import hint
from ttmem.views.ink import Style
from ttmem.views.kernel_table import partial_sentence
from ttmem.views.names import DeviceNames
from ttmem.views.note import Note
from ttmem.views.source_notes import is_quiet

WORST = ("over_capacity", "allocation_failed")  # impossible sums, then what broke an application
PROBE = "probe"  # what is beyond its table is in all sums, and said by an anomaly
NAMED = 3  # pids in one sentence


def anomaly_notes(snapshot: Snapshot) -> list[Note]:
    """One for each anomaly, with the devices it is on; the worst first."""
    names = DeviceNames(snapshot.devices)
    found = [
        (anomaly, device)
        for device in snapshot.devices
        for anomaly in device.anomalies
        if not is_quiet(anomaly)
    ]
    where: dict[str, list[str]] = {}
    for anomaly, device in sorted(found, key=lambda pair: _rank(pair[0])):
        where.setdefault(anomaly.text, []).append(device.unique_id)
    return [
        Note("!", Style.ALARM, f"{names.sentence(devices)}: {text}")
        for text, devices in where.items()
    ]


def _rank(anomaly: Anomaly) -> int:
    return WORST.index(anomaly.kind) if anomaly.kind in WORST else len(WORST)


def loss_notes(snapshot: Snapshot, chosen: bool = False) -> list[Note]:
    """What could not be accounted, if anything; `chosen`: only of the processes shown."""
    return [Note("!", Style.WARN, sentence) for sentence in _losses(snapshot, chosen)]


def _losses(snapshot: Snapshot, chosen: bool) -> list[str]:
    watched = [p for p in snapshot.processes if PROBE in p.sources]
    clients = [p for p in snapshot.processes if PROBE not in p.sources]
    overwritten = {p.pid: p.dropped_events for p in watched if p.dropped_events}
    dropped = {p.pid: p.dropped_events for p in clients if p.dropped_events}
    beyond = {p.pid: p.overflow for p in clients if p.overflow}
    overflow = sum(beyond.values())
    if chosen:
        unseen, rejected = sum(dropped.values()), 0
    else:
        # The server's own count has all three, and those of processes that are dead by now.
        known = overflow + sum(overwritten.values())
        unseen = max(snapshot.losses.dropped_events - known, 0)
        rejected = snapshot.losses.rejected_records
    out = []
    if overwritten:
        lost = sum(overwritten.values())
        events = "event was" if lost == 1 else "events were"
        out.append(
            f"lost: {lost:,} {events} overwritten before anybody read them{_pids(overwritten)};"
            " sums are right, how often a program ran and the highest L1 used may be N/A"
            " (`ttmem run --events` keeps more)"
        )
    if unseen:
        events = "event was" if unseen == 1 else "events were"
        out.append(
            f"lost: {unseen:,} {events} not seen one by one{_pids(dropped)};"
            " sums are healed by a resend, peaks between may be missing"
        )
    if overflow:
        buffers = "live buffer is" if overflow == 1 else "live buffers are"
        out.append(
            f"lost: {overflow:,} {buffers} beyond what a client can resend{_pids(beyond)};"
            " after the next resend they are in no sum"
        )
    if rejected:
        records = (
            "record was rejected: it is" if rejected == 1 else "records were rejected: they are"
        )
        out.append(f"{rejected:,} {records} in no sum (the server's log says why)")
    return out


def unlisted_notes(counts: Mapping[int, int]) -> list[Note]:
    """By pid: buffers of ended processes that were never freed, and that no list has."""
    if not counts:
        return []
    total = sum(counts.values())
    buffers = "buffer was" if total == 1 else "buffers were"
    text = (
        f"{total:,} more {buffers} never freed{_pids(counts)}: there was no room for them in the probe's table"
        " (`ttmem run --live` makes more)"
    )
    return [Note("!", Style.WARN, text)]


def _pids(counts: Mapping[int, int]) -> str:
    """' (pid 41235)': those with most of it, and how many others."""
    pids = sorted(counts, key=lambda pid: (-counts[pid], pid))
    if not pids:
        return ""
    more = f" and {len(pids) - NAMED} more" if len(pids) > NAMED else ""
    label = "pid" if len(pids) == 1 else "pids"
    return f" ({label} {', '.join(map(str, pids[:NAMED]))}{more})"


def missing_notes(snapshot: Snapshot) -> list[Note]:
    """Why capacities are N/A."""
    why: dict[tuple[str, str], list[str]] = {}
    for device in snapshot.devices:
        missing = [
            name
            for name, capacity in (
                ("DRAM", device.memory.dram.capacity),
                ("L1", device.l1_capacity),
            )
            if capacity is None
        ]
        if missing:
            what = "capacity" if len(missing) > 1 else f"{missing[0]} capacity"
            why.setdefault((what, _reason(device)), []).append(device.unique_id)
    names = DeviceNames(snapshot.devices)
    return [
        Note("-", Style.FAINT, f"{what} N/A on {names.sentence(devices)}: {reason}")
        for (what, reason), devices in why.items()
    ]


def partial_notes(snapshot: Snapshot) -> list[Note]:
    """What the kernel figures of devices miss that are watched in part."""
    missed: dict[str, list[str]] = {}
    for device in snapshot.devices:
        sentence = partial_sentence(device)
        if sentence is not None:
            missed.setdefault(sentence, []).append(device.unique_id)
    names = DeviceNames(snapshot.devices)
    return [
        Note("-", Style.FAINT, f"{names.sentence(devices)}: {sentence}")
        for sentence, devices in missed.items()
    ]


def _reason(device: Device) -> str:
    capacity = device.provenance.get("capacity")
    return (capacity and capacity.misses) or "its source does not tell"


def dead_notes(snapshot: Snapshot) -> list[Note]:
    """One line instead of the table of what dead processes left behind."""
    count = len(snapshot.left_behind)
    if not count:
        return []
    who = "dead process" if count == 1 else "dead processes"
    return [Note("-", Style.FAINT, f"{count:,} {who} left memory behind")]


def hint_notes(snapshot: Snapshot, earlier: Snapshot | None) -> list[Note]:
    """Advice."""
    return [Note("hint:", Style.GOOD, sentence) for sentence in hint(snapshot, earlier)]
