"""Devices, names, call sites and core sets: declared once to each server, then named by number."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple, TypeAlias

from ttmem.events import DeviceDeclaration
from ttmem.wire.frames import (
    GRID_LIMIT,
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

MOST_CORES = GRID_LIMIT * GRID_LIMIT
MOST = 100_000  # strings, and core sets; what comes later has number 0


class CoreSet(NamedTuple):
    """A set of cores: its number (0 = not declared), and how many they are."""

    number: int
    cores: int


class Declarations:
    """What a server must know before the events that name it; safe from any thread.

    A number is handed out after its declaration is in store. So whoever takes events first and
    declarations then, and sends them the other way round, never sends a number before its meaning.
    """

    def __init__(self) -> None:
        self.devices: dict[int, DeviceDeclaration] = {}
        self.strings: dict[str, int] = {}
        self.core_sets: dict[object, CoreSet] = {None: CoreSet(0, 1)}
        self.core_counts = [0]  # by number of the core set
        self.missed = 0  # strings and core sets beyond the limit
        self._unsent: dict[tuple[Frame, int], bytes] = {}
        self._connected = False
        self._lock = threading.RLock()  # a finalizer may declare something while we do

    def declare_device(self, device: DeviceDeclaration) -> None:
        """Keeps what is known about a device."""
        with self._lock:
            if self.devices.get(device.logical_id) != device:
                self._announce(Frame.DEVICE, device.logical_id, _device_frame(device))
                self.devices[device.logical_id] = device

    def string(self, text: str) -> int:
        """The number of a text; 0 if there are too many."""
        with self._lock:
            text = str(text)[:MAX_STRING]
            number = self.strings.get(text, 0)
            if number == 0 and self._has_room(len(self.strings)):
                number = len(self.strings) + 1
                self._announce(Frame.STRING, number, string_frame(number, text))
                self.strings[text] = number
            return number

    def cores(self, cores: Cores) -> CoreSet:
        """The set of these cores; ValueError, TypeError or struct.error if that is none."""
        if isinstance(cores, int):
            if not 0 <= cores <= MOST_CORES:
                raise ValueError(f"{cores} is no number of cores")
            return self.core_sets.setdefault(cores, CoreSet(0, cores))
        key = tuple(_rectangle(part) for part in cores or ())
        with self._lock:
            known = self.core_sets.get(key)
            return self._add_cores(key) if known is None else known

    def _add_cores(self, key: tuple[Rectangle, ...]) -> CoreSet:
        number = len(self.core_counts)
        announcement = cores_frame(number, key)
        count = bin(cores_mask(announcement[HEADER.size :])[1]).count("1")
        if not self._has_room(number - 1):
            return CoreSet(0, count)
        self._announce(Frame.CORES, number, announcement)
        self.core_counts.append(count)
        return self.core_sets.setdefault(key, CoreSet(number, count))

    def start(self) -> list[bytes]:
        """For a new connection: all of them; `take_unsent` has what comes after."""
        with self._lock:
            self._connected = True
            self._unsent = {}
            core_sets = [(n, key) for key, (n, _) in self.core_sets.items() if n]
            return [
                *map(_device_frame, self.devices.values()),
                *(string_frame(number, text) for text, number in self.strings.items()),
                *(cores_frame(number, key) for number, key in core_sets if isinstance(key, tuple)),
            ]

    def take_unsent(self) -> list[bytes]:
        """Those that are new since the last call."""
        if not self._unsent:
            return []
        with self._lock:
            taken, self._unsent = self._unsent, {}
            return list(taken.values())

    def stop(self) -> None:
        """The connection is gone."""
        with self._lock:
            self._connected = False
            self._unsent = {}

    def _has_room(self, known: int) -> bool:
        if known < MOST:
            return True
        self.missed += 1
        return False

    def _announce(self, kind: Frame, number: int, announcement: bytes) -> None:
        if self._connected:
            self._unsent[kind, number] = announcement


def _device_frame(device: DeviceDeclaration) -> bytes:
    return json_frame(Frame.DEVICE, device.to_json())


def _rectangle(part: Sequence[int]) -> Rectangle:
    """(x0, y0, x1, y1) with both ends included, or one core (x, y)."""
    if len(part) == 2:
        return (part[0], part[1], part[0], part[1])
    if len(part) != 4:
        raise ValueError(f"cores are rectangles (x0, y0, x1, y1) or (x, y) pairs, not {part!r:.60}")
    return (part[0], part[1], part[2], part[3])


@lru_cache(maxsize=65_536)
def content_of(name: str, size: int) -> int:
    """Tells distinct binaries from copies where no content id is given: by name and size."""
    text = f"{size}:{name}".encode("utf-8", "replace")
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "little") or 1
