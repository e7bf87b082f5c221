"""Cluster descriptors, parsed once for each state of their file."""

from __future__ import annotations

import os
import time

from ttmem.errors import BadInput
from ttmem.hw import Chip, Cluster, read_cluster

_MAX_KNOWN = 1024
# Processes name descriptors in their environment, those of other users too. 32 chips take 20 KiB and 0.15 s; what is
# made to take long is 1 s, so a user's next one waits until the last has cost a twentieth of the time.
_LARGEST = 128 << 10
_SHARE = 20

_State = tuple[int, int, int, int]


class Descriptors:
    """A descriptor that cannot be read is None until its file changes."""

    def __init__(self) -> None:
        self._parsed: dict[_State, Cluster | None] = {}
        self._latest: dict[str, Cluster | None] = {}
        self._not_before: dict[int | None, float] = {}

    def read(self, path: str) -> Cluster | None:
        """One that our own user names."""
        return self._read(path, None, None)

    def read_named(self, path: str, uid: int | None) -> Cluster | None:
        """One that a process of user `uid` names."""
        return self._read(path, _LARGEST, uid)

    def _read(self, path: str, largest: int | None, uid: int | None) -> Cluster | None:
        """What was read last is kept when the file goes, as it does with the process it is of."""
        try:
            status = os.stat(path)
        except (OSError, ValueError):
            return self._latest.get(path)
        state = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
        if state not in self._parsed:
            if largest is not None and time.monotonic() < self._not_before.get(uid, 0):
                return self._latest.get(path)
            self._parse(path, state, largest, uid)
        if len(self._latest) >= _MAX_KNOWN:
            self._latest.clear()
        self._latest[path] = self._parsed[state]
        return self._parsed[state]

    def _parse(self, path: str, state: _State, largest: int | None, uid: int | None) -> None:
        if len(self._parsed) >= _MAX_KNOWN:
            self._parsed.clear()
        begun = time.monotonic()
        try:
            self._parsed[state] = (
                read_cluster(path) if largest is None else read_cluster(path, largest)
            )
        except BadInput:
            self._parsed[state] = None
        ended = time.monotonic()
        self._not_before[uid] = ended + _SHARE * (ended - begun)


def chip_of(cluster: Cluster, number: int) -> Chip | None:
    """The chip whose region has that number; without unique ids the runtime uses logical ones."""
    if any(chip.unique_id is not None for chip in cluster.chips):
        return cluster.by_unique_id(number)
    return next((chip for chip in cluster.chips if chip.logical_id == number), None)
