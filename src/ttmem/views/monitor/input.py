"""Bytes from a terminal as keys and clicks."""

from __future__ import annotations

import re
from typing import NamedTuple

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


class Decoder:
    """Sequences may be cut anywhere between two reads. What is no text and no known key is skipped."""

    def __init__(self) -> None:
        self._rest = b""

    @property
    def waiting(self) -> bool:
        """There is an Esc, alone or with one key, that may yet be the beginning of a sequence."""
        return self._rest in (b"\x1b", b"\x1b[", b"\x1bO")

    def feed(self, data: bytes) -> list[Event]:
        """What is complete now."""
        self._rest += data
        found: list[Event] = []
        while self._rest:
            taken = self._sequence(found) if self._rest[0] == 0x1B else self._sign(found)
            if not taken:
                break
            self._rest = self._rest[taken:]
        return found

    def flush(self) -> list[Event]:
        """Nothing more came: Esc was a key of its own, and so was the one after it."""
        if not self.waiting:
            return []
        keys, self._rest = self._rest, b""
        return ["escape", *keys[1:].decode("ascii")]

    def _sequence(self, found: list[Event]) -> int:
        """Takes one that begins with Esc; 0 if its end is not there yet."""
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
        """Takes one letter; 0 if its bytes are not all there."""
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
    """So far it is a sequence without its end."""
    inside = rest[2:]
    return len(rest) < _LONGEST and all(0x20 <= byte < 0x40 for byte in inside)


def _size(first: int) -> int:
    """Bytes of a letter of UTF-8, by the first; 1 for what cannot be the first."""
    if first >= 0xF8 or first < 0xC0:
        return 1
    return 4 if first >= 0xF0 else 3 if first >= 0xE0 else 2


def _add_mouse(found: list[Event], button: int, column: int, line: int) -> None:
    if button in _WHEEL:
        found.append(_WHEEL[button])
    elif button & ~0x1C in (0, 1, 2):  # with Shift, Alt or Ctrl, too
        found.append(Click(column - 1, line - 1))
