"""A real program in a terminal of its own: keys go in, what it writes comes out."""

from __future__ import annotations

import codecs
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence

from tests.patience import PATIENCE_S
from ttmem.text import columns

_SEQUENCE = re.compile(rb"\x1b\[[0-9;?<>=$]*[A-Za-z]|\x1b[=>78]")
_MODE = re.compile(rb"\x1b\[\?(\d+)([hl])")
_COLOUR = re.compile(rb"\x1b\[([0-9;]*)m")
_CHOOSES = re.compile(rb"(?:^|;)(?:[349][0-7]|10[0-7]|[34]8)(?:;|$)")
CLEAN = {1049: False, 25: True, 7: True, 1000: False, 1006: False, 1004: False, 2004: False}


class TerminalProgram:
    """Use it with `with`; it is killed at the end if it still runs."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        width: int = 120,
        height: int = 40,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.terminal, inside = pty.openpty()
        self.resize(width, height)
        self.modes_before = termios.tcgetattr(inside)
        given = {**os.environ, "TERM": "xterm-256color", **(environment or {})}
        self.process = subprocess.Popen(
            command,
            stdin=inside,
            stdout=inside,
            stderr=inside,
            env=given,
            start_new_session=True,
            preexec_fn=_take_terminal,
        )
        self._inside = inside  # kept open: what was written last is not lost at the end
        self.output = b""
        self._seen = 0

    def __enter__(self) -> TerminalProgram:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._inside)
        os.close(self.terminal)

    def press(self, keys: str) -> None:
        """Types; what comes later is new to `wait_for`."""
        self.press_bytes(keys.encode())

    def press_bytes(self, keys: bytes) -> None:
        """What no keyboard sends, too."""
        while self.pump(0.0):
            pass
        self._seen = len(self.output)
        if keys:
            os.write(self.terminal, keys)

    def forget(self) -> None:
        """Drops what was written so far; a long run would fill the memory."""
        self.output, self._seen = b"", 0

    def read_for(self, seconds: float) -> None:
        """Takes what the program writes, so that it is never held up."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.pump(left)

    def resize(self, width: int, height: int) -> None:
        """The window has another size."""
        size = struct.pack("HHHH", height, width, 0, 0)
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, size)

    def pump(self, seconds: float) -> bool:
        """Reads what there is; False if nothing came within that time."""
        ready, _, _ = select.select([self.terminal], [], [], seconds)
        if ready:
            self.output += os.read(self.terminal, 1 << 16)
        return bool(ready)

    @property
    def text(self) -> str:
        """What was written since the last key, without the sequences that place and colour it."""
        return _SEQUENCE.sub(b"", self.output[self._seen :]).decode("utf-8", "replace")

    @property
    def whole_text(self) -> str:
        """What was written since the start; complete once the program has ended."""
        return _SEQUENCE.sub(b"", self.output).decode("utf-8", "replace")

    def wait_for(self, *words: str) -> None:
        """Until all the words have been written since the last key."""
        end = time.monotonic() + PATIENCE_S
        while not all(word in self.text for word in words):
            assert time.monotonic() < end, f"waited in vain for {words} in {self.text[-3000:]!r}"
            self.pump(0.5)

    def wait_for_end(self) -> int:
        """The exit code."""
        end = time.monotonic() + PATIENCE_S
        while self.process.poll() is None:
            assert time.monotonic() < end, f"it does not end: {self.text[-3000:]!r}"
            self.pump(0.05)
        while self.pump(0.05):
            pass
        return self.process.returncode

    @property
    def colours(self) -> set[bytes]:
        """Every sequence that chose a colour."""
        return {s for s in _COLOUR.findall(self.output) if _CHOOSES.search(s)}

    def signal(self, number: signal.Signals) -> None:
        """As `kill` sends it."""
        self.process.send_signal(number)

    @property
    def is_clean(self) -> bool:
        """Every mode is as a shell expects it, and the line discipline is as it was."""
        modes = {int(mode): on == b"h" for mode, on in _MODE.findall(self.output)}
        wrong = [mode for mode, on in CLEAN.items() if modes.get(mode, on) is not on]
        return not wrong and termios.tcgetattr(self._inside) == self.modes_before


def _take_terminal() -> None:
    """Makes it the controlling terminal, so that signals of the terminal reach the program."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


# -- A terminal in memory, as far as the monitor uses one: its cells, and a pty whose other end it is


_PIECE = re.compile(r"\x1b\[(\??)([0-9;]*)([A-Za-z])|([^\x1b])")
_CUT = re.compile(r"\x1b(\[[?0-9;]*)?$")  # a sequence without its end


class Emulator:
    """Places text, clears the screen, keeps modes; colours are kept per cell."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self.modes: dict[int, bool] = {}
        self._colour = ""
        self._at = (0, 0)
        self._clear()

    def _clear(self) -> None:
        self.cells = [[(" ", "")] * self.width for _ in range(self.height)]

    def write(self, text: str) -> None:
        """Whole sequences only."""
        for private, numbers, act, sign in _PIECE.findall(text):
            if sign:
                self._put(sign)
            elif private:
                self.modes[int(numbers)] = act == "h"
            elif act == "m":
                self._colour = numbers
            elif act == "J":
                self._clear()
            elif act == "H":
                line, column = map(int, numbers.split(";"))
                self._at = (line - 1, column - 1)

    def _put(self, sign: str) -> None:
        line, column = self._at
        wide = columns(sign)
        for at, part in enumerate([sign, *[""] * (wide - 1)][:wide]):
            if line < self.height and column + at < self.width:
                self.cells[line][column + at] = (part, self._colour)
        self._at = (line, column + wide)

    @property
    def lines(self) -> list[str]:
        return ["".join(sign for sign, _ in row).rstrip() for row in self.cells]


class Window:
    """A pty in this process: the program has `inside`, the test types and reads at the other end."""

    def __init__(self, width: int, height: int) -> None:
        self._outside, self.inside = pty.openpty()
        self._decode = codecs.getincrementaldecoder("utf-8")().decode
        self._text = ""  # not yet on the screen
        self.resize(width, height)
        self.modes_before = termios.tcgetattr(self.inside)

    def __enter__(self) -> Window:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.inside)
        if self._outside >= 0:
            os.close(self._outside)

    def hang_up(self) -> None:
        """The window is closed."""
        os.close(self._outside)
        self._outside = -1

    def type(self, keys: bytes) -> None:
        os.write(self._outside, keys)

    def resize(self, width: int, height: int) -> None:
        """Another size; what is on the screen is the program's business."""
        fcntl.ioctl(self._outside, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
        self.screen = Emulator(width, height)

    def read(self, seconds: float = 0.0) -> list[str]:
        """The screen, with everything that the program has written until now."""
        while select.select([self._outside], [], [], seconds)[0]:
            self._text += self._decode(os.read(self._outside, 1 << 16))
        cut = _CUT.search(self._text)
        end = cut.start() if cut else len(self._text)
        text, self._text = self._text[:end], self._text[end:]
        self.screen.write(text)
        return self.screen.lines
