"""Telemetry in recordings: samples that a recorder takes, and snapshots of a recording with them.

A sample is a document: `cards`, each a `CardSample`, and `absent`: why there is none.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from ttmem.clock import now_ns
from ttmem.errors import BadInput
from ttmem.events import CardSample, Telemetry
from ttmem.events.samples import VALUES
from ttmem.fast_dataclasses import replace
from ttmem.feeds.telemetry import card_sample, place, with_telemetry
from ttmem.hw import bus_of, find_board
from ttmem.hw.cards import MOST_ENTRIES, Card, NoValue
from ttmem.recording import Instant, Recording
from ttmem.recording.format import BadChunk
from ttmem.snapshots import Snapshot
from ttmem.snapshots.convert import read, write
from ttmem.sources.telemetry.source import (
    PATIENCE_S,
    SENSORS,
    CardTelemetry,
    TelemetryReading,
    TelemetrySource,
    checked_version,
)
from ttmem.text import clean

EVERY_S = 1.0
LONGEST_REASON = 300  # characters
REMOTE = "a remote chip: only the user-mode driver reaches it, which a recording does not ask"
NO_SAMPLES = "the recording has no telemetry: the driver listed no card while it was made"
TOO_EARLY = "the recording has no telemetry before this instant"
DAMAGED = "the telemetry in the recording is damaged at this instant"


class TelemetrySampler:
    """Reads the sensors once a second, in a thread, since the driver may block it. `write` is for the recording thread.

    On a host without cards there are no samples.
    """

    def __init__(
        self,
        write: Callable[[Mapping[str, Any], int], None],
        source: TelemetrySource | None = None,
    ) -> None:
        self._write = write
        self._source = source or TelemetrySource()
        self._latest: tuple[dict[str, Any], int] | None = None  # that was not written yet
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ttmem-telemetry", daemon=True)
        # Signals are for the thread that waits for them: `ttmem run` passes them on.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        self._thread.start()
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def _run(self) -> None:
        found = False
        while True:
            with suppress(
                Exception
            ):  # such as MemoryError: the recording goes on without this sample
                reading = self._source.read()
                found = found or bool(reading.looks)
                if found:
                    self._latest = sample_of(reading), now_ns()
            if self._stop.wait(EVERY_S):
                return

    def write(self) -> None:
        """Writes the latest sample, unless that has been done."""
        latest, self._latest = self._latest, None
        if latest is not None:
            self._write(*latest)

    def close(self) -> None:
        """Ends with the sample that is being taken: a short recording has one, too."""
        self._stop.set()
        self._thread.join(2 * PATIENCE_S)
        self.write()


def sample_of(reading: TelemetryReading) -> dict[str, Any]:
    return {
        "absent": reading.absent,
        "cards": [write(card_sample(*look)) for look in reading.looks],
    }


def with_recorded(snapshot: Snapshot, recording: Recording, instant: Instant) -> Snapshot:
    """The snapshot with the last sample that is not later."""
    found = with_telemetry(snapshot, _reading(recording, instant))
    return replace(found, cards=()) if recording.selection else found


class SensorRow(NamedTuple):
    """One chip in one sample."""

    time_ns: int
    device: str | None  # unique id; None: the recording knows no device that is this chip
    card: CardSample


def sensor_rows(recording: Recording, first_ns: int, last_ns: int) -> Iterator[SensorRow]:
    """All samples from one time up to another; damaged ones are left out."""
    devices = [
        (device.unique_id, device.declaration.pci, device.declaration.remote)
        for device in recording.devices()
    ]
    for time, document in recording.telemetry_between(first_ns, last_ns):
        try:
            looks = _read(document).looks
        except (BadInput, NoValue):
            continue
        found = {place(*device, looks): device[0] for device in devices}
        for at, look in enumerate(looks):
            if at in found or not recording.selection:
                yield SensorRow(time, found.get(at), card_sample(*look))


def _reading(recording: Recording, instant: Instant) -> TelemetryReading:
    try:
        document = recording.telemetry(instant)
        if document is not None:
            return _read(document)
        missing = TOO_EARLY if recording.info().telemetry else NO_SAMPLES
    except (BadChunk, BadInput, NoValue):
        missing = DAMAGED
    return TelemetryReading((), missing, REMOTE)


def _read(document: Any) -> TelemetryReading:
    """Somebody else may have written it: BadInput or NoValue if ttmem cannot have."""
    cards = document.get("cards") if isinstance(document, dict) else None
    if not isinstance(cards, list) or len(cards) > MOST_ENTRIES:
        raise BadInput("this is no sample")
    absent = document.get("absent")
    if not cards and not isinstance(absent, str):
        raise BadInput("this sample has neither cards nor a reason")
    looks = tuple(_card(read(CardSample, card)) for card in cards)
    return TelemetryReading(looks, None if looks else _reason(absent), REMOTE)


def _card(sample: CardSample) -> CardTelemetry:
    try:
        serial = None if sample.serial is None else int(sample.serial[:16], 16)
        asic_id = None if sample.asic_id is None else int(sample.asic_id[:20])
    except ValueError:
        raise BadInput("this is no id") from None
    of = Card(
        number=None if sample.number is None else min(max(sample.number, 0), 999_999),
        folder="",
        board=find_board(sample.board) if sample.board else None,
        serial=serial,
        asic_id=asic_id,
        pci=sample.pci if bus_of(sample.pci) is not None else None,
    )
    return of, _checked(sample.telemetry)


def _checked(told: Telemetry) -> Telemetry:
    """Values are checked like those of the driver."""
    for sensor in SENSORS:
        limit = getattr(told.limits, sensor.field) if sensor.limit else None
        value = getattr(told, sensor.field)
        if limit is not None:
            sensor.believed(limit, sensor.highest_limit)
        if value is not None:
            sensor.believed(value, max(sensor.most, limit or 0))
    if told.firmware is not None:
        checked_version(told.firmware)
    if told.source not in (None, "sysfs"):
        raise BadInput("this is no source")
    unknown = [name for name in VALUES if getattr(told, name) is None]
    reasons = {name: _reason(told.reasons.get(name, DAMAGED)) for name in unknown}
    return replace(told, reasons=reasons)


def _reason(text: str) -> str:
    return clean(text[:LONGEST_REASON])
