"""Textual's terminal driver, less what the monitor does not need and `AlternateScreen` has done already."""

from __future__ import annotations

import sys
from typing import Any, Protocol, runtime_checkable

from textual.drivers.linux_driver import LinuxDriver

from ttmem.views.monitor.alternate_screen import window_size

_ALTERNATE_SCREEN = "\x1b[?1049h"


@runtime_checkable
class TerminalOwner(Protocol):
    """The application, as the driver knows it."""

    def restore_line(self) -> None:
        """Echo and lines as the user had them."""


class MonitorDriver(LinuxDriver):
    """Writes to stdout; asks for clicks and the wheel, not for every move of the mouse."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        if sys.__stdout__ is not None:
            self._file = sys.__stdout__
        self._taken_over = False

    def start_application_mode(self) -> None:
        """Textual remembers the line discipline that it finds, and gives that back when it stops."""
        if isinstance(self._app, TerminalOwner):
            self._app.restore_line()
        super().start_application_mode()  # type: ignore[no-untyped-call]

    def write(self, data: str) -> None:
        """Leaves out the first switch to the alternate screen, which would wipe the first picture."""
        if data == _ALTERNATE_SCREEN and not self._taken_over:
            self._taken_over = True
        else:
            super().write(data)

    def run_input_thread(self) -> None:
        """Bytes that are no UTF-8 are skipped; a terminal that is gone ends the monitor."""
        while not self.exit_event.is_set():
            try:
                super().run_input_thread()
            except UnicodeDecodeError:
                continue
            except OSError:
                self._app.call_from_thread(self._app.exit)
                return

    def _get_terminal_size(self) -> tuple[int, int]:
        return window_size()

    def _enable_mouse_support(self) -> None:
        self.write("\x1b[?1000h")
        self.write("\x1b[?1006h")
        self.flush()

    def _query_in_band_window_resize(self) -> None:
        """SIGWINCH does; and no reply can be taken for keys."""
