"""A terminal in memory, as far as the monitor uses one: its cells, and a pty whose other end it is."""

from __future__ import annotations

import codecs
import fcntl
import os
import pty
import re
import select
import struct
import termios
from types import TracebackType

from ttmem.text import columns

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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
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
