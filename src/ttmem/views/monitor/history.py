"""One hour of samples per device for the charts: the feed's own past, then what each picture adds."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from itertools import pairwise

from ttmem.snapshots import Device, Snapshot
from ttmem.views.monitor.page import Series

SECONDS = 3600
COLUMNS = ("time_ns", "dram", "l1", "l1_small", "trace", "cb", "l1_used")
MOST_DEVICES = 256  # beyond that, devices that are not in the picture are forgotten

_SECOND_NS = 1_000_000_000
_LARGEST = (1 << 63) - 1
_Columns = dict[str, "array[int]"]


class History:
    """Samples by unique id, at most one a second. A device that vanishes keeps its past for an hour."""

    def __init__(self) -> None:
        self._devices: dict[str, _Columns] = {}

    @property
    def series(self) -> Mapping[str, Series]:
        """By unique id; it grows with the next `add`."""
        return self._devices

    def copy(self) -> Mapping[str, Series]:
        """The series as they are now, for a picture that is frozen."""
        return {
            unique_id: {name: column[:] for name, column in columns.items()}
            for unique_id, columns in self._devices.items()
        }

    def begin(self, document: object) -> None:
        """Takes the feed's past (`--detail history`). What is damaged there keeps what was known here."""
        if not isinstance(document, Mapping):
            return
        for unique_id, columns in document.items():
            past = _read(columns)
            if isinstance(unique_id, str) and past is not None:
                self._devices[unique_id] = past

    def add(self, snapshot: Snapshot) -> None:
        """Appends one sample per device, if a new second has begun."""
        now = snapshot.time_ns
        for device in snapshot.devices:
            columns = self._devices.setdefault(device.unique_id, _empty())
            _drop_future(columns, now)
            times = columns["time_ns"]
            if times and times[-1] // _SECOND_NS == now // _SECOND_NS:
                continue
            sample = _sample(now, device)
            if not 0 <= min(sample) <= max(sample) <= _LARGEST:
                continue  # no amount that a device could hold
            for column, value in zip(columns.values(), sample, strict=True):
                column.append(value)
        self._forget(snapshot)

    def _forget(self, snapshot: Snapshot) -> None:
        """Samples older than an hour, and devices that have none left."""
        oldest = snapshot.time_ns - SECONDS * _SECOND_NS
        crowded = len(self._devices) > MOST_DEVICES
        present = {device.unique_id for device in snapshot.devices} if crowded else set()
        for unique_id, columns in list(self._devices.items()):
            times = columns["time_ns"]
            while times and (times[0] <= oldest or len(times) > SECONDS):
                for column in columns.values():
                    del column[0]
            if not times or (crowded and unique_id not in present):
                del self._devices[unique_id]


def _empty() -> _Columns:
    return {name: array("q") for name in COLUMNS}


def _sample(now: int, device: Device) -> tuple[int, ...]:
    memory = device.memory
    held = (memory.dram.held, memory.l1.held, memory.l1_small.held, memory.trace.held)
    return (now, *held, memory.cb.used, device.l1_used)


def _drop_future(columns: _Columns, now: int) -> None:
    """A clock that was set back leaves samples of a time to come: a chart cannot go back and forth."""
    times = columns["time_ns"]
    keep = len(times)
    while keep and times[keep - 1] > now:
        keep -= 1
    if keep < len(times):
        for column in columns.values():
            del column[keep:]


def _read(columns: object) -> _Columns | None:
    """None if it is no history: columns of one length, whole numbers, times in order."""
    if not isinstance(columns, Mapping):
        return None
    try:
        out = {name: array("q", columns[name])[-SECONDS:] for name in COLUMNS}
    except (KeyError, TypeError, OverflowError, ValueError):
        return None
    times = out["time_ns"]
    whole = {len(column) for column in out.values()} == {len(times)}
    ordered = all(earlier < later for earlier, later in pairwise(times))
    return out if whole and ordered else None
