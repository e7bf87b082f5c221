"""Devices, names, call sites and core sets: declared once to each server, then named by number."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

from ttmem.events import DeviceDeclaration
from ttmem.wire.frames import (
    HEADER,
    MAX_STRING,
    Frame,
    Rectangle,
    cores_frame,
    cores_mask,
    json_frame,
    string_frame,
)

# None: unknown; a number: so many, nobody knows which; else rectangles (x0, y0, x1, y1), ends
# included.
Cores: TypeAlias = int | Iterable[Rectangle] | None

MOST = 100_000  # strings, and core sets; what comes later has number 0


class CoreSet(NamedTuple):
    """A set of cores: its number (0 = not declared), and how many they are."""

    number: int
    cores: int


class Declarations:
    """What a server must know before the events that name it; used under the outbox's lock."""

    def __init__(self) -> None:
        self.devices: dict[int, DeviceDeclaration] = {}
        self.strings: dict[str, int] = {}
        self.core_sets: dict[tuple[Rectangle, ...], CoreSet] = {}
        self.missed = 0  # strings and core sets beyond the limit
        self._unsent: dict[tuple[Frame, int], bytes] = {}
        self._connected = False

    def declare_device(self, device: DeviceDeclaration) -> None:
        """Keeps what is known about a device."""
        if self.devices.get(device.logical_id) != device:
            self.devices[device.logical_id] = device
            self._announce(Frame.DEVICE, device.logical_id, _device_frame(device))

    def string(self, text: str) -> int:
        """The number of a text; 0 if there are too many."""
        text = str(text)[:MAX_STRING]
        number = self.strings.get(text, 0)
        if number == 0 and self._has_room(self.strings):
            number = self.strings[text] = len(self.strings) + 1
            self._announce(Frame.STRING, number, string_frame(number, text))
        return number

    def cores(self, rectangles: Iterable[Rectangle]) -> CoreSet:
        """The set of these cores; ValueError, TypeError or struct.error if that is none."""
        key = tuple((x0, y0, x1, y1) for x0, y0, x1, y1 in rectangles)
        known = self.core_sets.get(key)
        if known is not None:
            return known
        number = len(self.core_sets) + 1
        announcement = cores_frame(number, key)
        count = bin(cores_mask(announcement[HEADER.size :])[1]).count("1")
        if not self._has_room(self.core_sets):
            return CoreSet(0, count)
        self.core_sets[key] = CoreSet(number, count)
        self._announce(Frame.CORES, number, announcement)
        return self.core_sets[key]

    def start(self) -> list[bytes]:
        """For a new connection: all of them, and `take_unsent` from now on."""
        self._connected = True
        self._unsent = {}
        return [
            *map(_device_frame, self.devices.values()),
            *(string_frame(number, text) for text, number in self.strings.items()),
            *(cores_frame(cores.number, key) for key, cores in self.core_sets.items()),
        ]

    def take_unsent(self) -> list[bytes]:
        """Those that are new since the last call."""
        taken, self._unsent = self._unsent, {}
        return list(taken.values())

    def stop(self) -> None:
        """The connection is gone."""
        self._connected = False
        self._unsent = {}

    def _has_room(self, known: dict[str, int] | dict[tuple[Rectangle, ...], CoreSet]) -> bool:
        if len(known) < MOST:
            return True
        self.missed += 1
        return False

    def _announce(self, kind: Frame, number: int, announcement: bytes) -> None:
        if self._connected:
            self._unsent[kind, number] = announcement


def _device_frame(device: DeviceDeclaration) -> bytes:
    return json_frame(Frame.DEVICE, device.to_json())
