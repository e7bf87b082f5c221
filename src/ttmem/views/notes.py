"""What stands under the tables: anomalies, losses, why numbers are missing, hints."""

from __future__ import annotations

from ttmem.snapshots import Device, Losses, Snapshot
from ttmem.views.hint import hint
from ttmem.views.ink import Line, Style, indent, ink, paragraph
from ttmem.views.names import DeviceNames


def anomaly_lines(snapshot: Snapshot, width: int) -> list[Line]:
    """One item for each anomaly, with the device it is on."""
    names = DeviceNames(snapshot.devices)
    where: dict[str, list[str]] = {}
    for device in snapshot.devices:
        for anomaly in device.anomalies:
            where.setdefault(anomaly.text, []).append(device.unique_id)
    out: list[Line] = []
    for text, devices in where.items():
        out += _item("!", Style.ALARM, f"{names.sentence(devices)}: {text}", width)
    return out


def loss_lines(losses: Losses, width: int) -> list[Line]:
    """What could not be accounted, if anything."""
    counts = (
        (losses.dropped_events, "dropped event"),
        (losses.gaps, "gap"),
        (losses.rejected_records, "rejected record"),
    )
    said = [f"{count:,} {what}{'' if count == 1 else 's'}" for count, what in counts if count]
    if not said:
        return []
    text = f"lost: {', '.join(said)}: what they said is missing in the figures (docs/numbers.md)"
    return _item("!", Style.WARN, text, width)


def missing_lines(snapshot: Snapshot, width: int) -> list[Line]:
    """Why capacities are N/A."""
    why: dict[str, list[str]] = {}
    for device in snapshot.devices:
        if device.memory.dram.capacity is None or device.l1_capacity is None:
            why.setdefault(_reason(device), []).append(device.unique_id)
    names = DeviceNames(snapshot.devices)
    out: list[Line] = []
    for reason, devices in why.items():
        out += _item(
            "-", Style.FAINT, f"capacity N/A on {names.sentence(devices)}: {reason}", width
        )
    return out


def _reason(device: Device) -> str:
    capacity = device.provenance.get("capacity")
    return (capacity and capacity.misses) or "its source does not tell"


def hint_lines(snapshot: Snapshot, earlier: Snapshot | None, width: int) -> list[Line]:
    """Advice."""
    out: list[Line] = []
    for sentence in hint(snapshot, earlier):
        out += _item("hint:", Style.GOOD, sentence, width)
    return out


def _item(sign: str, style: Style, text: str, width: int) -> list[Line]:
    by = len(sign) + 2
    return indent(paragraph(text, width - by), by, ink(f" {sign}", style))
