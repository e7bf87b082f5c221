"""What the sensors of a chip say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class TelemetryLimits:
    """Where the firmware throttles the chip; None: it does not say."""

    temperature_c: float | None = None
    power_w: float | None = None
    current_a: float | None = None
    voltage_mv: int | None = None


@dataclass(frozen=True, slots=True)
class Telemetry:
    """One look at one chip. What is unknown is None; `reasons` has why, by the name of the field."""

    temperature_c: float | None = None  # of the ASIC
    power_w: float | None = None
    current_a: float | None = None
    voltage_mv: int | None = None  # of the core
    aiclk_mhz: int | None = None
    axiclk_mhz: int | None = None
    arcclk_mhz: int | None = None
    fan_rpm: int | None = None
    heartbeat: int | None = None  # a counter of the firmware
    firmware: str | None = None  # version of the bundle
    limits: TelemetryLimits = TelemetryLimits()
    source: str | None = None  # 'sysfs', 'umd', or both; None: nobody tells anything
    stale: bool | None = None  # the heartbeat stands still; None: it was seen once, or not at all
    unchanged_s: float | None = None  # for how long the heartbeat has been what it is
    reasons: Mapping[str, str] = field(default_factory=dict)


VALUES = (
    "temperature_c",
    "power_w",
    "current_a",
    "voltage_mv",
    "aiclk_mhz",
    "axiclk_mhz",
    "arcclk_mhz",
    "fan_rpm",
    "heartbeat",
    "firmware",
)  # the fields of Telemetry that a sensor or the firmware gives


def no_telemetry(reason: str) -> Telemetry:
    """Nothing is known, for one reason."""
    return Telemetry(reasons=dict.fromkeys(VALUES, reason))


@dataclass(frozen=True, slots=True)
class CardSample:
    """A chip that the driver knows, and its telemetry."""

    number: int | None  # N of /dev/tenstorrent/N; None: a remote chip
    board: str | None
    arch: str | None
    pci: str | None
    serial: str | None  # hexadecimal, of the board
    asic_id: str | None  # decimal, as the unique id of a device
    remote: bool | None
    position: str | None
    telemetry: Telemetry
