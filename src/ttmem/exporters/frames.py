"""Call sites as frames."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple


class Frame(NamedTuple):
    """One line of Python, or a name that stands for one."""

    text: str  # the whole of it, as ttmem shows it
    function: str
    file: str | None
    line: int | None


@lru_cache(65_536)
def frames(site: str | None) -> tuple[Frame, ...]:
    """The frames of a call site, the innermost first; with `ttmem run --stacks` there are several."""
    return tuple(map(_frame, site.splitlines())) if site else (NO_SITE,)


NO_SITE = Frame("(no call site)", "(no call site)", None, None)


def _frame(text: str) -> Frame:
    """'path/model.py:42 forward'."""
    place, _, function = text.strip().rpartition(" ")
    file, _, line = (place or function).rpartition(":")
    if not file or not line.isdecimal():
        return Frame(text, text, None, None)
    return Frame(text, function if place else f"line {line}", file, int(line))
