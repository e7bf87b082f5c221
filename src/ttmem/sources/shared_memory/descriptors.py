"""Cluster descriptors, parsed once for each state of their file."""

from __future__ import annotations

import os

from ttmem.errors import BadInput
from ttmem.hw import Chip, Cluster, read_cluster

_MAX_KNOWN = 64


class Descriptors:
    """A descriptor that cannot be read is None until its file changes."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[tuple[int, int, int], Cluster | None]] = {}

    def read(self, path: str) -> Cluster | None:
        """What was read last is kept when the file goes, as it does with the process it is of."""
        known = self._known.get(path)
        try:
            status = os.stat(path)
        except (OSError, ValueError):
            return known[1] if known else None
        state = (status.st_ino, status.st_size, status.st_mtime_ns)
        if known is None or known[0] != state:
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            known = self._known[path] = (state, _parsed(path))
        return known[1]


def _parsed(path: str) -> Cluster | None:
    try:
        return read_cluster(path)
    except BadInput:
        return None


def chip_of(cluster: Cluster, number: int) -> Chip | None:
    """The chip whose region has that number; without unique ids the runtime uses logical ones."""
    if any(chip.unique_id is not None for chip in cluster.chips):
        return cluster.by_unique_id(number)
    return next((chip for chip in cluster.chips if chip.logical_id == number), None)
