"""The terminal while the monitor has it: taken over at once, and given back clean on any exit.

Textual takes two thirds of a second to import. The first picture is painted here, before that;
Textual's driver then finds the alternate screen already open and paints over it.
"""

from __future__ import annotations

import os
import signal
import sys
import termios
from collections.abc import Sequence
from types import FrameType
from typing import Any

from ttmem.views.ink import Line
from ttmem.views.monitor.theme import Theme

_STDOUT = 1  # not sys.stdout: Textual puts a catcher of prints in its place
_ENTER = "\x1b[?1049h\x1b[?25l\x1b[?7l"  # alternate screen, no cursor, no wrapping
_MOUSE_OFF = "\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1015l\x1b[?1006l"
_MODES_OFF = "\x1b[?2026l\x1b[?1004l\x1b[?2004l"  # synchronised output, focus, bracketed paste
_LEAVE = _MOUSE_OFF + _MODES_OFF + "\x1b[0m\x1b[?7h\x1b[?1049l\x1b[?25h"
_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


class AlternateScreen:
    """Use it with `with`. SIGTERM and SIGHUP leave it through SystemExit with 128 + their number."""

    def __init__(self) -> None:
        self._input = sys.stdin.fileno()
        self._output = sys.stdout.fileno()
        self._before: list[Any] | None = None
        self._handlers: dict[signal.Signals, Any] = {}

    def __enter__(self) -> AlternateScreen:
        for number in _SIGNALS:
            self._handlers[number] = signal.signal(number, _leave)
        # Ctrl-Z would stop it with the screen taken; Textual, which can give it back, comes soon.
        self._handlers[signal.SIGTSTP] = signal.signal(signal.SIGTSTP, signal.SIG_IGN)
        self._before = termios.tcgetattr(self._input)
        quiet = termios.tcgetattr(self._input)
        quiet[3] &= ~(termios.ECHO | termios.ICANON)  # what is typed now waits for Textual
        termios.tcsetattr(self._input, termios.TCSANOW, quiet)
        self._write(_ENTER)
        return self

    def __exit__(self, *trouble: object) -> None:
        self.give_back()
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def paint(self, lines: Sequence[Line], width: int, theme: Theme) -> None:
        """One picture in one piece."""
        rows = [theme.painted(line, width) for line in lines]
        self._write("".join(f"\x1b[{at};1H{row}" for at, row in enumerate(rows, start=1)))

    def give_back(self) -> None:
        """The terminal as it was found; also when it is already, or when it is gone."""
        self._write(_LEAVE)
        self.restore_line()

    def restore_line(self) -> None:
        """Echo and lines as they were; the screen stays. Textual takes these for the user's own."""
        if self._before is not None:
            try:
                termios.tcsetattr(self._input, termios.TCSANOW, self._before)
            except termios.error:
                pass

    def _write(self, text: str) -> None:
        data = text.encode("utf-8", "replace")
        try:
            while data:
                data = data[os.write(self._output, data) :]
        except OSError:
            pass  # the terminal is gone: nobody sees it


def window_size() -> tuple[int, int]:
    """Columns and lines of the window itself; COLUMNS and LINES of a shell do not follow a resize."""
    try:
        width, height = os.get_terminal_size(_STDOUT)
    except (OSError, ValueError):
        return 80, 24
    return (width, height) if width and height else (80, 24)


def _leave(number: int, _: FrameType | None) -> None:
    sys.exit(128 + number)
