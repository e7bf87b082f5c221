"""Anomalies with the time at which they happened, or were first seen or seen again; a bounded number of them."""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

from ttmem.snapshots import Anomaly, Snapshot

MOST = 500

Key = tuple[str, str, int | None]  # device, kind, pid: the text changes with every count


class SeenAnomaly(NamedTuple):
    """An anomaly; `time_ns` is None if it was there before the monitor looked, and does not tell itself."""

    device: str
    anomaly: Anomaly
    time_ns: int | None


class AnomalyMemory:
    """Learns from each picture what is new; the one that was silent longest is forgotten first."""

    def __init__(self) -> None:
        self._seen: OrderedDict[Key, SeenAnomaly] = OrderedDict()
        self._began = False

    def look(self, snapshot: Snapshot) -> None:
        """Takes note of the anomalies of a picture; the same picture twice changes nothing."""
        for device in snapshot.devices:
            for anomaly in device.anomalies:
                seen = snapshot.time_ns if self._began else None
                self._note(device.unique_id, anomaly, anomaly.time_ns or seen)
        self._began = True

    def _note(self, device: str, anomaly: Anomaly, time_ns: int | None) -> None:
        key = (device, anomaly.kind, anomaly.pid)
        known = self._seen.get(key)
        if known and known.anomaly == anomaly:
            return
        self._seen[key] = SeenAnomaly(device, anomaly, time_ns)
        self._seen.move_to_end(key)
        while len(self._seen) > MOST:
            self._seen.popitem(last=False)

    def seen(self) -> list[SeenAnomaly]:
        """The oldest first."""
        return list(self._seen.values())
