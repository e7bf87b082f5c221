"""The last hour of each device, as the charts show it: one sample a second."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from ttmem.snapshots import Device, MemoryHistory, Snapshot
from ttmem.views.monitor.state import Series

SECONDS = 3600
MOST_DEVICES = 256  # beyond that, devices that are not in the snapshot are forgotten

_SECOND_NS = 1_000_000_000
_LARGEST = (1 << 63) - 1
_Columns = dict[str, "array[int]"]


class SampleHistory:
    """Samples by unique id, at most one a second. A device that vanishes keeps its past for an hour."""

    def __init__(
        self,
        names: Sequence[str] = MemoryHistory._fields,
        sample: Callable[[Device], tuple[int, ...] | None] | None = None,
    ) -> None:
        self._devices: dict[str, _Columns] = {}
        self._names = names
        self._sample = sample or _held

    @property
    def series(self) -> Mapping[str, Series]:
        """By unique id; it grows with the next `add`."""
        return self._devices

    def copy(self) -> Mapping[str, Series]:
        """The series as they are now, for a screen that is paused."""
        return {
            unique_id: {name: column[:] for name, column in columns.items()}
            for unique_id, columns in self._devices.items()
        }

    def begin(self, history: Mapping[str, MemoryHistory] | None) -> None:
        """Takes the feed's past (`--detail history`). What is damaged there keeps what was known here."""
        for unique_id, columns in (history or {}).items():
            past = _read(columns)
            if past is not None:
                self._devices[unique_id] = past

    def add(self, snapshot: Snapshot) -> None:
        """Appends one sample per device, if a new second has begun."""
        now = snapshot.time_ns
        for device in snapshot.devices:
            columns = self._devices.get(device.unique_id)
            if columns is not None:
                _drop_future(columns, now)
                times = columns["time_ns"]
                if times and times[-1] // _SECOND_NS == now // _SECOND_NS:
                    continue
            values = self._sample(device)
            if values is None:
                continue
            sample = (now, *values)
            if not 0 <= min(sample) <= max(sample) <= _LARGEST:
                continue  # no amount that a device could hold
            if columns is None:
                columns = {name: array("q") for name in self._names}
                self._devices[device.unique_id] = columns
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


def _held(device: Device) -> tuple[int, ...]:
    memory = device.memory
    held = (memory.dram.held, memory.l1.held, memory.l1_small.held, memory.trace.held)
    return (*held, memory.cb.used, device.l1_used)


def measured(sensor: str, device: Device) -> tuple[int, ...] | None:
    """In tenths; None if the sensor is unknown, or its card hangs."""
    telemetry = device.telemetry
    value = None if telemetry is None or telemetry.stale else getattr(telemetry, sensor)
    return None if value is None else (round(10 * value),)


def _drop_future(columns: _Columns, now: int) -> None:
    """After a clock was set back, or a recording rewound, later samples are wrong."""
    times = columns["time_ns"]
    keep = len(times)
    while keep and times[keep - 1] > now:
        keep -= 1
    if keep < len(times):
        for column in columns.values():
            del column[keep:]


def _read(columns: MemoryHistory) -> _Columns | None:
    """None if it is no history: columns of one length, times in order."""
    try:
        out = {name: array("q", column)[-SECONDS:] for name, column in columns._asdict().items()}
    except OverflowError:
        return None
    times = out["time_ns"]
    whole = {len(column) for column in out.values()} == {len(times)}
    ordered = all(earlier < later for earlier, later in pairwise(times))
    return out if whole and ordered else None
