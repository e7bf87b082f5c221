"""What the terminal at the other end can show, and how a picture is drawn again in place."""

from __future__ import annotations

import json
import os
import shutil
from typing import TextIO

NARROWEST = 40
WIDTH_OF_A_PIPE = 120

_HIDE_CURSOR, _SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"
_HOME, _CLEAR_LINE, _CLEAR_BELOW = "\x1b[H", "\x1b[K", "\x1b[J"
_PLAIN_SIGNS = str.maketrans("█▉▊▋▌▍▎▏·…─", "########.~-")


def width(stream: TextIO) -> int:
    """Columns to fill."""
    columns = (
        shutil.get_terminal_size((WIDTH_OF_A_PIPE, 24)).columns if stream.isatty() else _of_pipe()
    )
    return max(columns, NARROWEST)


def _of_pipe() -> int:
    given = os.environ.get("COLUMNS", "")
    return int(given) if given.isdecimal() else WIDTH_OF_A_PIPE


def wants_color(stream: TextIO, forbidden: bool = False) -> bool:
    """Colour on a terminal that can, unless the user says no (NO_COLOR, --no-color)."""
    if forbidden or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return stream.isatty()


def spelled(text: str, stream: TextIO) -> str:
    """The text in signs that the stream's encoding has."""
    encoding = stream.encoding or "ascii"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(_PLAIN_SIGNS).encode(encoding, "backslashreplace").decode(encoding)
    return text


def as_json(document: object, for_people: bool) -> str:
    """Indented for people; on one line for programs."""
    if for_people:
        return json.dumps(document, indent=2)
    return json.dumps(document, separators=(",", ":"))


class Screen:
    """A terminal on which one picture replaces the other; use it with `with`."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __enter__(self) -> Screen:
        # What was on the screen goes up into the scrollback instead of being wiped.
        self._write(_HIDE_CURSOR + "\n" * (self._rows() - 1))
        return self

    def __exit__(self, *trouble: object) -> None:
        self._write(_SHOW_CURSOR)

    def draw(self, text: str) -> None:
        """Writes the picture over the last one, in one piece, so that nothing flickers."""
        lines = text.split("\n")
        room = self._rows() - 1
        if len(lines) > room:
            more = len(lines) - room + 1
            lines[room - 1 :] = [
                f"… {more} more lines: a taller window, --device or --pid shows them"
            ]
        self._write(_HOME + "".join(f"{line}{_CLEAR_LINE}\n" for line in lines) + _CLEAR_BELOW)

    def _rows(self) -> int:
        return max(shutil.get_terminal_size().lines, 3)

    def _write(self, text: str) -> None:
        self._stream.write(spelled(text, self._stream))
        self._stream.flush()
