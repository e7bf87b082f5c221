"""The terminal: size, colours, characters, and JSON for pipes."""

from __future__ import annotations

import json
import os
import re
import sys
from typing import TextIO

from ttmem.text import clip, columns


def terminal_size(otherwise: tuple[int, int] = (80, 24)) -> os.terminal_size:
    """COLUMNS and LINES, else what the terminal says; like `shutil`, which takes 5 ms to load."""
    columns, lines = _given("COLUMNS"), _given("LINES")
    if columns and lines:
        return os.terminal_size((columns, lines))
    try:
        asked = os.get_terminal_size(sys.__stdout__.fileno() if sys.__stdout__ else -1)
    except (ValueError, OSError):
        asked = os.terminal_size(otherwise)
    return os.terminal_size(
        (columns or asked.columns or otherwise[0], lines or asked.lines or otherwise[1])
    )


def _given(name: str) -> int:
    try:
        return max(int(os.environ.get(name, "")), 0)
    except ValueError:
        return 0


NARROWEST = 40
WIDTH_OF_A_PIPE = 120

# Lines are cut to the width; where a terminal finds a letter wider than we do, it must not wrap.
_BEGIN, _END = "\x1b[?25l\x1b[?7l", "\x1b[?7h\x1b[?25h"  # no cursor and no wrapping; both again
_COLOUR = r"(\x1b\[[0-9;]*m)"
_HOME, _CLEAR_LINE, _CLEAR_BELOW = "\x1b[H", "\x1b[K", "\x1b[J"
_SIGNS = {
    "█▉▊▋▌▍▎▏": "########",  # bars to the right
    "▇▆▅▄▃▂▁▀": "#==--__'",  # bars upwards
    "▓▒░■□▪▫◼◻": "#+.#o#o#o",
    "─━┄┈╌│┃┆┊╎": "-----|||||",
    "┌┐└┘├┤┬┴┼╭╮╰╯╔╗╚╝═║": "+++++++++++++++++=|",
    "·…∙●○•◦": ".~.*o*o",
    "▲▼◀▶△▽◁▷↑↓←→": "^v<>^v<>^v<>",
    "×≤≥≈±–—": "x<>~+--",
}
_SHADES = " .:-=+*#@"  # a Braille sign by the number of its dots
_PLAIN_SIGNS = str.maketrans(
    {
        sign: plain
        for signs, plains in _SIGNS.items()
        for sign, plain in zip(signs, plains, strict=True)
    }
    | {chr(0x2800 + dots): _SHADES[dots.bit_count()] for dots in range(256)}
)


def width(stream: TextIO) -> int:
    columns = terminal_size((WIDTH_OF_A_PIPE, 24)).columns if stream.isatty() else _of_pipe()
    return max(columns, NARROWEST)


def _of_pipe() -> int:
    given = os.environ.get("COLUMNS", "")
    return int(given) if given.isdecimal() else WIDTH_OF_A_PIPE


def wants_color(stream: TextIO, forbidden: bool = False) -> bool:
    """Whether the terminal has colours and the user has not disabled them (NO_COLOR, --no-color)."""
    if forbidden or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return stream.isatty()


def spelled(text: str, stream: TextIO) -> str:
    """Replaces characters that the stream's encoding lacks."""
    encoding = stream.encoding or "ascii"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(_PLAIN_SIGNS).encode(encoding, "backslashreplace").decode(encoding)
    return text


def plain_signs(text: str) -> str:
    """The text in ASCII, equally wide; other letters become question marks."""
    if text.isascii():
        return text
    text = text.translate(_PLAIN_SIGNS)
    return "".join(sign if sign.isascii() else "?" * columns(sign) for sign in text)


def lacks_signs(stream: TextIO) -> bool:
    """Whether encoding or name suggest that the terminal lacks block and Braille characters."""
    term = os.environ.get("TERM", "")
    if os.environ.get("LC_ALL") in ("C", "POSIX") or term == "linux" or term.startswith("vt"):
        return True
    try:
        "█⣿●".encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return True
    return False


def as_json(document: object, for_people: bool) -> str:
    """Indented for people; on one line for programs."""
    if for_people:
        return json.dumps(document, indent=2)
    return json.dumps(document, separators=(",", ":"), check_circular=False)


def cut(line: str, width: int) -> str:
    """A line with colours, in at most `width` columns."""
    if columns(re.sub(_COLOUR, "", line)) <= width:
        return line
    out: list[str] = []
    for at, piece in enumerate(re.split(_COLOUR, line)):
        if at % 2:
            out.append(piece)
        elif columns(piece) >= width:
            return "".join(out) + clip(piece + " ", width) + ("\x1b[0m" if at else "")
        else:
            out.append(piece)
            width -= columns(piece)
    return "".join(out)


class Screen:
    """A terminal on which each refresh replaces the one before; use it with `with`."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __enter__(self) -> Screen:
        # What was on the screen goes up into the scrollback instead of being wiped.
        self._write(_BEGIN + "\n" * (self._size().lines - 1))
        return self

    def __exit__(self, *trouble: object) -> None:
        self._write(_END)

    @property
    def height(self) -> int:
        """Lines to draw on; the cursor takes one more."""
        return self._size().lines - 1

    def draw(self, text: str) -> None:
        """Writes over the last refresh, in one piece, so that nothing flickers."""
        width = self._size().columns
        lines = [cut(line, width) for line in text.split("\n")[: self.height]]
        # Cleared before it is written: after the last column, clearing would wipe that column.
        self._write(_HOME + "".join(f"{_CLEAR_LINE}{line}\n" for line in lines) + _CLEAR_BELOW)

    def _size(self) -> os.terminal_size:
        size = terminal_size()
        return os.terminal_size((max(size.columns, 1), max(size.lines, 3)))

    def _write(self, text: str) -> None:
        self._stream.write(spelled(text, self._stream))
        self._stream.flush()
