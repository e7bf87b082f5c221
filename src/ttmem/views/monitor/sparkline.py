"""A history in one line."""

from __future__ import annotations

from collections.abc import Iterable

LEVELS, ASCII_LEVELS = "▂▃▄▅▆▇█", ".:-=+*#"
NOTHING, ASCII_NOTHING = "▁", "_"
GAP = " "
OVER = "!"


def sparkline(values: Iterable[int | None], top: int, ascii: bool = False) -> str:
    """One sign for each value: a gap, nothing, some of `top`, or more than that."""
    levels, nothing = (ASCII_LEVELS, ASCII_NOTHING) if ascii else (LEVELS, NOTHING)
    steps = len(levels) - 1
    out = []
    for value in values:
        if value is None:
            out.append(GAP)
        elif value <= 0:
            out.append(nothing)
        elif value > top:
            out.append(OVER)
        else:
            out.append(levels[value * steps // top])
    return "".join(out)
