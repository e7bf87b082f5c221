"""The terminal while the monitor runs: raw keys in, changed lines out, restored on any exit.

Not `curses`: it has no true colour, its refresh blocks while the terminal accepts nothing, and it needs a
terminfo entry for every TERM. The sequences used here are understood by every terminal of the last twenty years.
"""

from __future__ import annotations

import os
import re
import select
import signal
import sys
import termios
import threading
import time
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from types import FrameType
from typing import Any, NamedTuple

from ttmem.views.ink import Line
from ttmem.views.monitor.theme import Theme

ESCAPE_DELAY = 0.025  # seconds; what comes later does not belong to an Esc before it
_LONGEST = 64  # bytes of one sequence


class Click(NamedTuple):
    """A button of the mouse went down on this cell, counted from 0."""

    column: int
    line: int


Event = str | Click  # a key is its sign ('a', '/'), or its name ('up', 'space', 'shift+tab')

_NAMES = {
    "\r": "enter",
    "\n": "enter",
    "\t": "tab",
    " ": "space",
    "\x7f": "backspace",
    "\x08": "backspace",
    "\x03": "ctrl+c",
    "\x1a": "ctrl+z",
}
_SEQUENCES = {
    b"A": "up",
    b"B": "down",
    b"C": "right",
    b"D": "left",
    b"H": "home",
    b"F": "end",
    b"1~": "home",
    b"7~": "home",
    b"4~": "end",
    b"8~": "end",
    b"5~": "pageup",
    b"6~": "pagedown",
    b"Z": "shift+tab",
    b"M": "enter",  # of the keypad, after ESC O
}
_CSI = re.compile(rb"\x1b\[([0-?]*[ -/]*[@-~])")
_SS3 = re.compile(rb"\x1bO([A-Za-z])")
_MOUSE = re.compile(rb"<(\d{1,3});(\d{1,5});(\d{1,5})M")
_OLD_MOUSE = b"\x1b[M"  # and three bytes, from terminals that do not know the mode asked for
_WHEEL = {64: "up", 65: "down"}


class KeyDecoder:
    """A sequence may be split between two reads. Unknown keys are skipped."""

    def __init__(self) -> None:
        self._rest = b""

    @property
    def waiting(self) -> bool:
        """An Esc, alone or with one key, may still be the beginning of a sequence."""
        return self._rest in (b"\x1b", b"\x1b[", b"\x1bO")

    def feed(self, data: bytes) -> list[Event]:
        """The events that are complete now."""
        self._rest += data
        found: list[Event] = []
        while self._rest:
            taken = self._sequence(found) if self._rest[0] == 0x1B else self._sign(found)
            if not taken:
                break
            self._rest = self._rest[taken:]
        return found

    def flush(self) -> list[Event]:
        """Nothing followed: Esc was a key of its own, and so was the one after it."""
        if not self.waiting:
            return []
        keys, self._rest = self._rest, b""
        return ["escape", *keys[1:].decode("ascii")]

    def _sequence(self, found: list[Event]) -> int:
        """Consumes a sequence that begins with Esc; 0 if it is incomplete."""
        rest = self._rest
        if rest.startswith(_OLD_MOUSE):
            if len(rest) < 6:
                return 0
            _add_mouse(found, rest[3] - 32, rest[4] - 32, rest[5] - 32)
            return 6
        if match := _CSI.match(rest):
            if mouse := _MOUSE.fullmatch(match[1]):
                _add_mouse(found, *map(int, mouse.groups()))
            elif match[1] in _SEQUENCES:
                found.append(_SEQUENCES[match[1]])
            return match.end()
        if match := _SS3.match(rest):
            found += [_SEQUENCES[match[1]]] if match[1] in _SEQUENCES else []
            return match.end()
        if len(rest) == 1 or (rest[1:2] in (b"[", b"O") and _may_go_on(rest)):
            return 0
        found.append("escape")  # and another key
        return 1

    def _sign(self, found: list[Event]) -> int:
        """Consumes one character; 0 if it is incomplete."""
        size = _size(self._rest[0])
        letter = self._rest[:size]
        if len(letter) < size and all(0x80 <= byte < 0xC0 for byte in letter[1:]):
            return 0
        try:
            sign = letter.decode()
        except UnicodeDecodeError:
            return 1
        if sign in _NAMES:
            found.append(_NAMES[sign])
        elif sign.isprintable():
            found.append(sign)
        return size


def _may_go_on(rest: bytes) -> bool:
    """Whether it may still become a sequence."""
    inside = rest[2:]
    return len(rest) < _LONGEST and all(0x20 <= byte < 0x40 for byte in inside)


def _size(first: int) -> int:
    """Bytes of a UTF-8 character, by the first; 1 for an invalid one."""
    if first >= 0xF8 or first < 0xC0:
        return 1
    return 4 if first >= 0xF0 else 3 if first >= 0xE0 else 2


def _add_mouse(found: list[Event], button: int, column: int, line: int) -> None:
    if button in _WHEEL:
        found.append(_WHEEL[button])
    elif button & ~0x1C in (0, 1, 2):  # with Shift, Alt or Ctrl, too
        found.append(Click(column - 1, line - 1))


_ENTER = b"\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[?1000h\x1b[?1006h"  # screen, cursor, wrapping, mouse
_LEAVE = b"\x1b[?2026l\x1b[?1006l\x1b[?1000l\x1b[0m\x1b[?7h\x1b[?1049l\x1b[?25h"
_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"  # one frame, for terminals that can show it at once
_ENDINGS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
_NOTED = (signal.SIGWINCH, signal.SIGTSTP, signal.SIGCONT)
_PARTING = 1.0  # seconds that a terminal has for taking the last bytes


class Terminal:
    """A context manager. In the main thread, signals end it (SystemExit with 128 + number).

    Nothing waits for the terminal: a thread does the writing, and while it is
    busy nothing is painted.
    """

    def __init__(self, source: int | None = None, target: int | None = None) -> None:
        self._input = sys.stdin.fileno() if source is None else source
        self._output = sys.stdout.fileno() if target is None else target
        self._decoder = KeyDecoder()
        self._escape_at = 0.0  # when a lone Esc is taken for one
        self._before: list[Any] | None = None
        self._handlers: dict[signal.Signals, Any] = {}
        self._noted: set[int] = set()
        self._woken, self._wake = os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(self._wake, False)
        self._writer = _Writer(self._output, self._is_written)
        self._skipped = False  # a screen, because the one before is still being written
        self._lines: list[Line] = []  # on the screen
        self._dress: tuple[Theme, int] | None = None  # how they were painted
        self.gone = False  # the other end has hung up

    def __enter__(self) -> Terminal:
        if threading.current_thread() is threading.main_thread():
            self._handlers = {n: signal.signal(n, _leave) for n in _ENDINGS}
            self._handlers |= {n: signal.signal(n, self._note) for n in _NOTED}
        self._before = termios.tcgetattr(self._input)
        try:
            self._take()
        except BaseException:  # a signal
            self.__exit__()
            raise
        return self

    def __exit__(self, *trouble: object) -> None:
        for number in self._handlers:
            signal.signal(number, signal.SIG_IGN)
        self._give_back()
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self._writer.end()

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines of the window itself; COLUMNS and LINES of a shell do not follow a resize."""
        try:
            width, height = os.get_terminal_size(self._output)
        except OSError:
            return 80, 24
        return (width, height) if width and height else (80, 24)

    def wake(self) -> None:
        """Ends the wait of `events`; from any thread."""
        try:
            os.write(self._wake, b"\0")
        except OSError:
            pass  # full: it will wake anyway

    def events(self, seconds: float) -> list[Event]:
        """What the user did; nothing after that time, or when woken."""
        if self._decoder.waiting:
            seconds = min(seconds, max(self._escape_at - time.monotonic(), 0.0))
        ready, _, _ = select.select([self._input, self._woken], [], [], max(seconds, 0.0))
        if self._woken in ready:
            os.read(self._woken, 1 << 12)
        found = self._read() if self._input in ready else []
        if self._decoder.waiting and time.monotonic() >= self._escape_at:
            found += self._decoder.flush()
        self._heed()
        return found

    def _read(self) -> list[Event]:
        try:
            data = os.read(self._input, 1 << 12)
        except BlockingIOError:
            return []
        except OSError:
            data = b""
        self.gone = not data
        self._escape_at = time.monotonic() + ESCAPE_DELAY
        return self._decoder.feed(data)

    def show(self, lines: Sequence[Line], theme: Theme) -> None:
        """Paints the lines that differ from those on the screen; all of them in another size or theme."""
        self._skipped = True
        if self._writer.busy:
            return
        self._skipped = False
        width, height = self.size
        lines = lines[:height]
        known = self._lines if self._dress == (theme, width) else []
        known = known if len(known) == len(lines) else []
        painted = [
            f"\x1b[{at + 1};1H{theme.painted(line, width)}"
            for at, line in enumerate(lines)
            if not known or line != known[at]
        ]
        self._lines, self._dress = list(lines), (theme, width)
        if painted:
            clear = "" if known else "\x1b[2J"
            text = f"{_BEGIN}{clear}{''.join(painted)}{_END}"
            self._writer.write(text.encode("utf-8", "replace"))

    def suspend(self) -> None:
        """As Ctrl-Z does without raw mode: the whole job stops, and goes on with `fg`.

        Where no shell could go on with it (`ssh -t host ttmem top`), the kernel does not stop it.
        """
        self._give_back()
        before = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(0, signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, before)
        self._take()

    def _take(self) -> None:
        """Raw keys, without the line discipline's signals and flow control; the screen starts blank."""
        raw = termios.tcgetattr(self._input)
        raw[0] &= ~(termios.IXON | termios.ICRNL | termios.INLCR | termios.IGNCR | termios.ISTRIP)
        raw[3] &= ~(termios.ECHO | termios.ICANON | termios.ISIG | termios.IEXTEN)
        raw[6][termios.VMIN], raw[6][termios.VTIME] = 1, 0
        termios.tcsetattr(self._input, termios.TCSANOW, raw)
        self._dress = None
        self._writer.write(_ENTER)

    def _give_back(self) -> None:
        self._writer.write(_LEAVE)
        self._writer.flush(_PARTING)
        try:
            termios.tcsetattr(self._input, termios.TCSANOW, self._before or [])
        except termios.error:
            pass  # it is gone

    def _is_written(self) -> None:
        if self._skipped:
            self.wake()

    def _note(self, number: int, _: FrameType | None) -> None:
        self._noted.add(number)
        self.wake()

    def _heed(self) -> None:
        """Acts on signals. After SIGCONT the shell has used the terminal."""
        noted, self._noted = self._noted, set()
        if signal.SIGTSTP in noted:
            self.suspend()
        elif signal.SIGCONT in noted:
            self._take()


class _Writer:
    """A thread that writes, so that a slow or dead terminal blocks nothing else."""

    def __init__(self, file: int, done: Callable[[], None]) -> None:
        self._file = file
        self._done = done
        self._queue: SimpleQueue[bytes | None] = SimpleQueue()
        self._given = self._written = 0
        threading.Thread(target=self._run, name="ttmem-screen", daemon=True).start()

    @property
    def busy(self) -> bool:
        return self._given != self._written

    def write(self, data: bytes) -> None:
        self._given += 1
        self._queue.put(data)

    def flush(self, seconds: float) -> None:
        """Waits until everything is written, or the time is up."""
        end = time.monotonic() + seconds
        while self.busy and time.monotonic() < end:
            time.sleep(0.001)

    def end(self) -> None:
        """Ends the thread once everything is written."""
        self._queue.put(None)

    def _run(self) -> None:
        while (data := self._queue.get()) is not None:
            try:
                while data:
                    data = data[self._some(data) :]
            except OSError:
                pass  # the terminal is gone; reading notices that, too
            self._written += 1
            self._done()

    def _some(self, data: bytes) -> int:
        try:
            return os.write(self._file, data)
        except BlockingIOError:  # another process made it non-blocking
            select.select([], [self._file], [])
            return 0


def _leave(number: int, _: FrameType | None) -> None:
    sys.exit(128 + number)
