"""A way to end another thread's poll()."""

from __future__ import annotations

import os
import weakref


class Waker:
    """An eventfd, open while anyone holds it, so that a late wake() hits no other file."""

    def __init__(self) -> None:
        self._file = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        weakref.finalize(self, os.close, self._file).atexit = False

    def fileno(self) -> int:
        """For poll()."""
        return self._file

    def wake(self) -> None:
        """Ends the poll() that is under way, or else the next one."""
        try:
            os.eventfd_write(self._file, 1)
        except BlockingIOError:
            pass  # it is set as often as can be

    def clear(self) -> None:
        """The next poll() waits again."""
        try:
            os.eventfd_read(self._file)
        except BlockingIOError:
            pass
