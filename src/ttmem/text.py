"""Text that is safe to print, measured in terminal columns.

Commands, names and paths come from other processes: whatever could move the cursor, hide or reorder
text is shown as an escape (`\\x1b`) instead of being obeyed.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

ELLIPSIS = "…"
_WORD = r"\d[\d.,]* (?:[KMGT]i)?B\b\S*|\S+"  # a size stays on one line with its unit
_EMOJI_SELECTOR = "\ufe0f"  # makes the sign before it two columns wide, in some terminals only


def clean(text: str) -> str:
    """The text with everything that is not plainly visible escaped."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_visible, text))


def _visible(letter: str) -> str:
    if letter == _EMOJI_SELECTOR:
        return ""
    if letter.isprintable():
        return letter
    if unicodedata.category(letter) == "Zs":
        return " "
    return letter.encode("unicode_escape").decode("ascii")


def columns(text: str) -> int:
    """How many terminal columns a clean text takes."""
    return len(text) if text.isascii() else _columns(text)


@lru_cache(1 << 11)
def _columns(text: str) -> int:
    """A monitor measures the same bars again and again."""
    return sum(map(_columns_of, text))


@lru_cache(1 << 12)
def _columns_of(letter: str) -> int:
    if unicodedata.category(letter) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


def clip(text: str, width: int) -> str:
    """The beginning of a clean text, with an ellipsis where it was cut."""
    if columns(text) <= width:
        return text
    if width < 1:
        return ""
    return _beginning(text, width - 1) + ELLIPSIS


def _beginning(text: str, width: int) -> str:
    used = 0
    for at, letter in enumerate(text):
        used += _columns_of(letter)
        if used > width:
            return text[:at]
    return text


def wrap(text: str, width: int) -> list[str]:
    """A clean text in lines of at most `width` columns, broken at spaces where there are any."""
    lines = [""]
    for word in _words(text, max(width, 2)):
        joined = f"{lines[-1]} {word}" if lines[-1] else word
        if columns(joined) <= width:
            lines[-1] = joined
        else:
            lines.append(word)
    return lines


def _words(text: str, width: int) -> Iterator[str]:
    for word in re.findall(_WORD, text):
        while columns(word) > width:
            piece = _beginning(word, width)
            yield piece
            word = word[len(piece) :]
        yield word


def printable(text: str | bytes, instead: str = "?") -> str:
    """Whatever is no printable letter becomes `instead`."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else instead for letter in text)


_PYTHON = r"(?:python|pypy)[\d.]*"
_WITH_VALUE = ("-X", "-W", "--check-hash-based-pycs")  # options of Python followed by their value


def program_name(command: str | None) -> str | None:
    """The script, module or program alone; None if the command is unknown."""
    return None if command is None else short_command(command).split(" ", 1)[0]


@lru_cache(1 << 10)  # the monitor asks for the same ones at each refresh
def short_command(command: str | None) -> str:
    """Script and arguments, without the interpreter, its options, and folders."""
    if command is None:
        return "N/A"
    words = command.split(" ")
    at = _script(words) if re.fullmatch(_PYTHON, _base(words[0])) else 0
    words = words[at:]
    return " ".join([_base(words[0]), *words[1:]])


def _script(words: list[str]) -> int:
    """Where the script or module of a Python command line is; 0 if there is neither (as with -c)."""
    at = 1
    while at < len(words) and words[at].startswith("-"):
        if words[at] == "-m" and at + 1 < len(words):
            return at + 1
        if words[at] in ("-", "-c", "-m"):
            return 0
        at += 2 if words[at] in _WITH_VALUE else 1
    return at if at < len(words) and words[at] else 0


def _base(path: str) -> str:
    return path.rsplit("/", 1)[-1] or path
