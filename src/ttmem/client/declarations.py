"""Devices, names, call sites and core sets: declared once to each server, then referred to by number."""

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

# None: unknown. A number: that many cores, not known which. Else rectangles (x0, y0, x1, y1) with inclusive ends.
Cores: TypeAlias = int | Iterable[Rectangle] | None

MOST_CORES = GRID_LIMIT * GRID_LIMIT
MOST = 100_000  # strings, and core sets; further ones get number 0


class DeclaredCores(NamedTuple):
    """A set of cores: its number (0 if not declared) and its size."""

    number: int
    cores: int


class Declarations:
    """What a server must know before the events that refer to it. Thread-safe.

    A declaration is stored before its number is handed out. So if events are taken first and declarations second, and
    they are sent in the opposite order, no number is sent before its declaration.
    """

    def __init__(self) -> None:
        self.devices: dict[int, DeviceDeclaration] = {}
        self.strings: dict[str, int] = {}
        self.core_sets: dict[object, DeclaredCores] = {None: DeclaredCores(0, 1)}
        self.core_counts = [0]  # by number of the core set
        self.missed = 0  # strings and core sets beyond the limit
        self._unsent: dict[tuple[Frame, int], bytes] = {}
        self._connected = False
        # Reentrant: a finalizer may declare something in the middle of a declaration.
        self._lock = threading.RLock()

    def declare_device(self, device: DeviceDeclaration) -> None:
        with self._lock:
            if self.devices.get(device.logical_id) != device:
                self._announce(Frame.DEVICE, device.logical_id, _device_frame(device))
                self.devices[device.logical_id] = device

    def string(self, text: str) -> int:
        """The number of a string; 0 if there are too many."""
        with self._lock:
            text = str(text)[:MAX_STRING]
            number = self.strings.get(text, 0)
            if number == 0 and self._may_add(len(self.strings)):
                number = len(self.strings) + 1
                self._announce(Frame.STRING, number, string_frame(number, text))
                self.strings[text] = number
            return number

    def cores(self, cores: Cores) -> DeclaredCores:
        """ValueError, TypeError or struct.error if these are not cores."""
        if isinstance(cores, int):
            if not 0 <= cores <= MOST_CORES:
                raise ValueError(f"{cores} is not a number of cores")
            return self.core_sets.setdefault(cores, DeclaredCores(0, cores))
        key = tuple(_rectangle(part) for part in cores or ())
        with self._lock:
            known = self.core_sets.get(key)
            return self._add_cores(key) if known is None else known

    def _add_cores(self, key: tuple[Rectangle, ...]) -> DeclaredCores:
        number = len(self.core_counts)
        announcement = cores_frame(number, key)
        count = bin(cores_mask(announcement[HEADER.size :])[1]).count("1")
        if not self._may_add(number - 1):
            return DeclaredCores(0, count)
        self._announce(Frame.CORES, number, announcement)
        self.core_counts.append(count)
        return self.core_sets.setdefault(key, DeclaredCores(number, count))

    def start(self) -> list[bytes]:
        """All declarations, for a new connection; `take_unsent` has those that come later."""
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
        """Those added since the last call."""
        if not self._unsent:
            return []
        with self._lock:
            taken, self._unsent = self._unsent, {}
            return list(taken.values())

    def stop(self) -> None:
        with self._lock:
            self._connected = False
            self._unsent = {}

    def _may_add(self, known: int) -> bool:
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
    """From (x0, y0, x1, y1) with inclusive ends, or from one core (x, y)."""
    if len(part) == 2:
        return (part[0], part[1], part[0], part[1])
    if len(part) != 4:
        raise ValueError(f"cores are rectangles (x0, y0, x1, y1) or (x, y) pairs, not {part!r:.60}")
    return (part[0], part[1], part[2], part[3])


@lru_cache(maxsize=65_536)
def content_of(name: str, size: int) -> int:
    """Identifies a binary by name and size where no content id is given."""
    text = f"{size}:{name}".encode("utf-8", "replace")
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "little") or 1
