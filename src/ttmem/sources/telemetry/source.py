"""Temperature, power, current, clocks: from sysfs and hwmon, without accessing any chip.

| value                 | file                  | unit    | accepted                              |
|-----------------------|-----------------------|---------|---------------------------------------|
| temperature, of ASIC  | hwmon `temp1_input`   | m deg C | -50 to 100 deg C                      |
| power                 | hwmon `power1_input`  | uW      | 0 to 500 W                            |
| current               | hwmon `curr1_input`   | mA      | 0 to 350 A, or the chip's own limit   |
| voltage, of core      | hwmon `in0_input`     | mV      | 0 to 900 mV, or the chip's own limit  |
| clocks                | `tt_aiclk`, `tt_axiclk`, `tt_arcclk` | MHz | 1 to 1500 MHz              |
| fan                   | hwmon `fan1_input`    | rpm     | 0 to 19,999 rpm; Blackhole only       |
| heartbeat             | `tt_heartbeat`        | count   | any but all ones: no card answers     |
| firmware              | `tt_fw_bundle_ver`    |         | any but 255.255.255.255               |

`tt_*` are in the directory of the card, hwmon in `device/hwmon/hwmonN` below it; limits are beside: `temp1_max` etc.
The driver blocks readers while a card is being reset, so each card is read by its own thread.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ttmem.events import Telemetry, TelemetryLimits
from ttmem.events.samples import VALUES, no_telemetry
from ttmem.fast_dataclasses import dataclass, replace
from ttmem.hw import bus_of, find_board
from ttmem.hw.cards import (
    Card,
    NoValue,
    address,
    attribute,
    card,
    card_folders,
    cards_folder,
    names,
)

if TYPE_CHECKING:
    from ttmem.sources.telemetry.umd import UmdSensors

PATIENCE_S = 1.0  # for the driver to answer, all cards at the same time
STALE_S = 1.0  # the heartbeat advances ten times a second
RETRY_S = 0.05
REMOTE = "a remote chip: only the user-mode driver reaches it (--umd)"

CardTelemetry = tuple[Card, Telemetry]
_ChipKey = tuple[int | None, int | None, str | None]

_HWMON = re.compile(r"hwmon([0-9]{1,6})")
_NUMBER = re.compile(r"-?[0-9]{1,20}")
_VERSION = re.compile(r"[0-9]{1,3}(\.[0-9]{1,3}){2,3}(-[0-9A-Za-z.]{1,16})?")


@dataclass(frozen=True, slots=True)
class Sensor:
    """Where a value is, what it is divided by, and which values are accepted."""

    field: str
    file: str
    least: float
    most: float
    unit: str
    divisor: int | None = None  # None: a whole number
    limit: str | None = None  # file with the value at which the firmware throttles
    highest_limit: float = 0  # that is accepted

    def number(self, text: str) -> float:
        if not _NUMBER.fullmatch(text):
            raise NoValue("the driver reports something that is not a number")
        return int(text) if self.divisor is None else int(text) / self.divisor

    def believed(self, value: object, most: float) -> float:
        """NoValue if no working sensor reports that."""
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise NoValue("the user-mode driver does not report it")
        if not self.least <= value <= most:
            bounds = f"{self.least:,.0f} to {most:,.0f}{self.unit}"
            said = f"{value:,.15g}" if abs(value) < 1 << 64 else "what it says"
            raise NoValue(f"{said}{self.unit} is not plausible; expected is {bounds}")
        return int(value) if self.divisor is None else round(float(value), 3)


# Wormhole allows its core up to 1,000 mV, a Blackhole Galaxy 500 A: more than is accepted from a chip without limits.
SENSORS = (
    Sensor("temperature_c", "temp1_input", -50, 100, " °C", 1000, "temp1_max", 100),
    Sensor("power_w", "power1_input", 0, 500, " W", 1_000_000, "power1_max", 500),
    Sensor("current_a", "curr1_input", 0, 350, " A", 1000, "curr1_max", 600),
    Sensor("voltage_mv", "in0_input", 0, 900, " mV", None, "in0_max", 1200),
    Sensor("aiclk_mhz", "tt_aiclk", 1, 1500, " MHz"),
    Sensor("axiclk_mhz", "tt_axiclk", 1, 1500, " MHz"),
    Sensor("arcclk_mhz", "tt_arcclk", 1, 1500, " MHz"),
    Sensor("fan_rpm", "fan1_input", 0, 19_999, " rpm"),
    Sensor("heartbeat", "tt_heartbeat", 0, 0xFFFFFFFE, ""),
)
FIRMWARE = "tt_fw_bundle_ver"
NO_FIRMWARE = "255.255.255.255"


def read_card(number: int, folder: str) -> CardTelemetry:
    """In the calling thread. What cannot be read is None, with its reason."""
    return card(number, folder), read_sensors(folder)


def read_sensors(folder: str) -> Telemetry:
    hwmon = _hwmon(os.path.join(folder, "device", "hwmon"))

    def read(sensor: Sensor, file: str | None) -> float:
        file = file or ""
        if file.startswith("tt_"):
            return sensor.number(attribute(folder, file))
        if hwmon is None:
            raise NoValue("the driver has no hwmon for this card")
        return sensor.number(attribute(hwmon, file))

    found = _checked(
        "sysfs",
        lambda sensor: read(sensor, sensor.file),
        lambda sensor: read(sensor, sensor.limit),
        lambda: attribute(folder, FIRMWARE),
    )
    if not os.path.isdir(folder):
        return no_telemetry("the card was removed while it was read")
    return found


def _checked(
    source: str,
    value: Callable[[Sensor], object],
    limit: Callable[[Sensor], object],
    firmware: Callable[[], str],
) -> Telemetry:
    """What is not plausible, or raises NoValue, is None, with its reason."""
    values: dict[str, Any] = {}
    limits: dict[str, Any] = {}
    reasons: dict[str, str] = {}
    for sensor in SENSORS:
        name = sensor.field
        with suppress(NoValue):  # a value without a limit is still a value
            if sensor.limit:
                limits[name] = sensor.believed(limit(sensor), sensor.highest_limit)
        try:
            # Anything up to the chip's own limit is plausible.
            values[name] = sensor.believed(value(sensor), max(sensor.most, limits.get(name, 0)))
        except NoValue as reason:
            reasons[name] = str(reason)
    try:
        values["firmware"] = checked_version(firmware())
    except NoValue as reason:
        reasons["firmware"] = str(reason)
    return Telemetry(
        **values,
        limits=TelemetryLimits(**limits),
        source=source if values else None,
        reasons=reasons,
    )


def checked_version(text: str) -> str:
    if not _VERSION.fullmatch(text) or text == NO_FIRMWARE:
        raise NoValue("the driver reports something that is not a version")
    return text


def _hwmon(folder: str) -> str | None:
    found = [(int(name[1]), name[0]) for name in map(_HWMON.fullmatch, names(folder)) if name]
    return os.path.join(folder, min(found)[1]) if found else None


def merged(
    looks: tuple[CardTelemetry, ...], chips: Iterable[Mapping[str, Any]]
) -> tuple[CardTelemetry, ...]:
    """Adds what the user-mode driver reports: values and chips that sysfs does not have."""
    out = list(looks)
    for chip in chips:
        of, measured = _from_umd(chip)
        at = next((at for at, (known, _) in enumerate(out) if _is_same(known, of)), None)
        if at is None:
            out.append((of, measured))
        else:
            known, before = out[at]
            named = replace(known, asic_id=of.asic_id or known.asic_id)
            out[at] = named, _filled(before, measured)
    return tuple(out)


def _from_umd(chip: Mapping[str, Any]) -> CardTelemetry:
    unique_id, pci, board = (chip.get(key) for key in ("unique_id", "pci", "board"))
    values, limits = (
        {**found} if isinstance(found := chip.get(key), dict) else {}
        for key in ("values", "limits")
    )
    of = Card(
        number=None,
        folder="",
        board=find_board(board) if isinstance(board, str) else None,
        serial=None,
        asic_id=unique_id if type(unique_id) is int and unique_id >= 0 else None,
        pci=pci if isinstance(pci, str) and bus_of(pci) is not None else None,
    )
    return of, _checked(
        "umd",
        lambda sensor: values.get(sensor.field),
        lambda sensor: limits.get(sensor.field),
        lambda: str(values.get("firmware")),
    )


def _is_same(one: Card, other: Card) -> bool:
    if one.pci is not None and other.pci is not None:
        return one.pci == other.pci
    return one.asic_id is not None and one.asic_id == other.asic_id


def _filled(known: Telemetry, more: Telemetry) -> Telemetry:
    missing = [name for name in VALUES if getattr(known, name) is None]
    found: dict[str, Any] = {
        name: value for name in missing if (value := getattr(more, name)) is not None
    }
    if not found:
        return known
    reasons = {name: why for name, why in known.reasons.items() if name not in found}
    source = " + ".join(filter(None, (known.source, more.source)))
    return replace(known, **found, source=source, reasons=reasons)


@dataclass(frozen=True, slots=True)
class TelemetryReading:
    """`absent`: why there is no chip. `remote`: why a remote chip is missing."""

    looks: tuple[CardTelemetry, ...]
    absent: str | None
    remote: str


class TelemetrySource:
    """Reads all cards, repeatedly. It remembers heartbeats, so keep one object.

    `root` is that of sysfs. `umd` is asked as well, for remote chips and for what sysfs does not have.
    """

    def __init__(
        self,
        root: str | None = None,
        *,
        umd: UmdSensors | None = None,
        read: Callable[[int, str], CardTelemetry] = read_card,
        patience_s: float = PATIENCE_S,
        stale_s: float = STALE_S,
    ) -> None:
        self._folder = cards_folder(root)
        self._umd = umd
        self._read = read
        self._patience_s = patience_s
        self._stale_s = stale_s
        # By chip: its heartbeat, since when it has had that one, and whether it was seen to move.
        self._beats: dict[_ChipKey, tuple[int, float, bool]] = {}
        self._waiting: dict[str, _Answer] = {}

    def read(self, *, settled: bool = False) -> TelemetryReading:
        """`settled`: repeats until each heartbeat was seen to move or to stand still.

        That takes as long as one beat of the firmware, and up to `STALE_S` if one is stuck.
        """
        reading = self._read_once()
        while settled and any(
            telemetry.stale is None and telemetry.heartbeat is not None
            for _, telemetry in reading.looks
        ):
            time.sleep(RETRY_S)
            reading = self._read_once()
        return reading

    def _read_once(self) -> TelemetryReading:
        found = dict(card_folders(self._folder))
        looks = tuple(self._answers(found))
        if self._umd is not None:
            looks = merged(looks, self._umd.ask())
        before, self._beats, now = self._beats, {}, time.monotonic()
        judged = tuple((of, self._judged(of, telemetry, before, now)) for of, telemetry in looks)
        problem = self._umd.problem if self._umd else None
        return TelemetryReading(judged, None if looks else self._absent(), problem or REMOTE)

    def _judged(
        self,
        of: Card,
        telemetry: Telemetry,
        before: dict[_ChipKey, tuple[int, float, bool]],
        now: float,
    ) -> Telemetry:
        """Marks the telemetry of a chip whose heartbeat stands still as stale."""
        key, beat = (of.number, of.asic_id, of.pci), telemetry.heartbeat
        if beat is None:
            return telemetry
        last, since, moved = before.get(key) or (beat, now, False)
        if beat != last:
            since, moved = now, True
        stale = False if moved else None
        if key in before and beat == last and now - since >= self._stale_s:
            stale = True
        self._beats[key] = beat, since, moved
        return replace(telemetry, stale=stale, unchanged_s=round(now - since, 3))

    def _absent(self) -> str:
        if os.path.isdir(self._folder):
            return "the driver has no card"
        return f"the driver is not loaded: there is no {self._folder}"

    def close(self) -> None:
        if self._umd is not None:
            self._umd.close()

    def _answers(self, found: dict[int, str]) -> Iterator[CardTelemetry]:
        asked = {}
        for number, folder in found.items():
            known = self._waiting.get(folder)
            if known is None or known.done.is_set():
                known = _Answer(self._read, number, folder)
            asked[number] = known
        self._waiting = {each.folder: each for each in asked.values()}
        deadline = time.monotonic() + self._patience_s
        for answer in asked.values():
            yield answer.get(deadline)


class _Answer:
    """The telemetry of one card, read in a thread that the driver may block."""

    def __init__(self, read: Callable[[int, str], CardTelemetry], number: int, folder: str) -> None:
        self.done = threading.Event()
        self.folder = folder
        self._number = number
        self._began = time.monotonic()
        self._found: CardTelemetry | None = None
        threading.Thread(
            target=self._run, args=(read,), daemon=True, name=f"telemetry of card {number}"
        ).start()

    def get(self, deadline: float) -> CardTelemetry:
        self.done.wait(max(0.0, deadline - time.monotonic()))
        if self._found is not None and self.done.is_set():
            return self._found
        waited = time.monotonic() - self._began
        reason = f"the driver has not answered for {waited:.1f} s; the card may be resetting"
        nameless = Card(self._number, self.folder, None, None, None, address(self.folder))
        return nameless, no_telemetry(reason)

    def _run(self, read: Callable[[int, str], CardTelemetry]) -> None:
        try:
            self._found = read(self._number, self.folder)
        finally:
            self.done.set()
