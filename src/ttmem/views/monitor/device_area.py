"""The devices of the Overview as they were laid out: lines, and where each device stands in them."""

from __future__ import annotations

from dataclasses import dataclass, field

from ttmem.views.ink import Line


@dataclass(frozen=True, slots=True)
class Place:
    """Where a device stands: columns `start` to `stop` of a line (None: to its end)."""

    device: int  # index into the snapshot's devices
    line: int
    start: int = 0
    stop: int | None = None


@dataclass(frozen=True, slots=True)
class DeviceArea:
    """Devices on screen; `across` of them stand beside each other."""

    lines: list[Line]
    places: list[Place] = field(default_factory=list)
    across: int = 1
