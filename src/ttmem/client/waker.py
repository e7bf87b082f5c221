"""A way to end another thread's poll()."""

from __future__ import annotations

import os
import weakref


class Waker:
    """An eventfd, open while anyone holds it, so that a late wake() hits no other file.

    Where the process has no file descriptor left there is none, until somebody polls again.
    """

    def __init__(self) -> None:
        self._file: int | None = None

    def fileno(self) -> int | None:
        """For poll(); None if no file can be opened now."""
        if self._file is None:
            try:
                self._file = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
            except OSError:
                return None
            weakref.finalize(self, os.close, self._file).atexit = False
        return self._file

    def wake(self) -> None:
        """Ends the poll() that is under way, or else the next one."""
        if self._file is None:
            return  # nobody has polled, or can rest without
        try:
            os.eventfd_write(self._file, 1)
        except BlockingIOError:
            pass  # it is set as often as can be

    def clear(self) -> None:
        """The next poll() waits again."""
        if self._file is None:
            return
        try:
            os.eventfd_read(self._file)
        except BlockingIOError:
            pass
