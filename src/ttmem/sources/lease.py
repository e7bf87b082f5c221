"""The kernel's own word on whether a file is in use.

A write lease is granted only if nobody else on the machine has the file open or mapped, whatever
container or user; /proc/*/maps shows that of the processes alone that this user may look into.
While it is held, whoever opens the file waits until it is given back, and the holder can see that
somebody waits.
"""

from __future__ import annotations

import errno
import fcntl
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import Enum

# A monitor that reads the region right now is gone in a millisecond.
_LOOKS = 5
_PAUSE_S = 0.02


class Use(Enum):
    """Of a file, besides our own."""

    NOBODY = "nobody"
    SOMEBODY = "somebody"
    UNKNOWN = "unknown"  # this file system or kernel grants no leases


class Lease:
    """On an open file."""

    def __init__(self, descriptor: int, use: Use) -> None:
        self._descriptor = descriptor
        self.use = use

    def somebody_waits(self) -> bool:
        """Whether the file is being opened since the lease began."""
        if self.use is not Use.NOBODY:
            return False
        return fcntl.fcntl(self._descriptor, fcntl.F_GETLEASE) != fcntl.F_WRLCK


@contextmanager
def leased(descriptor: int) -> Iterator[Lease]:
    """The descriptor must be open for writing, and its file this user's own (or root's)."""
    use = _take(descriptor)
    try:
        yield Lease(descriptor, use)
    finally:
        if use is Use.NOBODY:
            with suppress(OSError):
                fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)


def _take(descriptor: int) -> Use:
    for look in range(_LOOKS):
        try:
            # The kernel's signal for a waiting opener would end this process; this one does not.
            fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
            fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        except OSError as problem:
            if problem.errno != errno.EAGAIN:
                return Use.UNKNOWN
        else:
            return Use.NOBODY
        if look < _LOOKS - 1:
            time.sleep(_PAUSE_S)
    return Use.SOMEBODY
