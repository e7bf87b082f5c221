"""Call sites as frames."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple


class CallFrame(NamedTuple):
    """One line of Python, or a name that stands for one."""

    text: str  # all of it, as ttmem shows it
    function: str
    file: str | None
    line: int | None


@lru_cache(65_536)
def frames(site: str | None) -> tuple[CallFrame, ...]:
    """The frames of a call site, innermost first; `ttmem run --stacks` records several."""
    lines = site.strip("\n").split("\n") if site else []  # other line ends belong to a name
    return tuple(map(_frame, lines)) or (NO_SITE,)


NO_SITE = CallFrame("(no call site)", "(no call site)", None, None)


def _frame(text: str) -> CallFrame:
    """'path/model.py:42 forward'."""
    place, _, function = text.strip().rpartition(" ")
    file, _, line = (place or function).rpartition(":")
    if not file or not line.isdecimal():
        return CallFrame(text, text, None, None)
    return CallFrame(text, function if place else f"line {line}", file, int(line))
