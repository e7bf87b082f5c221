"""A bar in parts: what fills a memory, each part with a sign and a colour of its own."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from ttmem.views.ink import Line, Span, Style, ink
from ttmem.views.meter import PERCENT, is_over, level, meter, percentage

Part = tuple[int, str, Style]  # amount, sign, colour
REST, ASCII_REST = "·", "."
SLIVERS, ASCII_SLIVER = "▏▎▍▌▋▊▉", "|"  # for less than a cell


@lru_cache(1 << 10)  # at ten pictures a second most bars stay as they are
def stacked_meter(parts: tuple[Part, ...], capacity: int | None, room: int, ascii: bool) -> Line:
    """Bar and percentage in exactly `room` columns, as `meter` does for one amount."""
    used = sum(amount for amount, _, _ in parts)
    length = room - PERCENT - 1
    if capacity is None or is_over(used, capacity) or length < 1:
        return meter(used, capacity, room)
    number = ink(percentage(used, capacity).rjust(PERCENT), level(used, capacity))
    return (*stacked_bar(parts, capacity, length, ascii), Span(" "), *number)


def stacked_bar(parts: Sequence[Part], capacity: int, length: int, ascii: bool) -> Line:
    """The parts from the left, then what is free."""
    cells = shares([amount for amount, _, _ in parts], capacity, length)
    filled = [
        Span(_sliver(amount, capacity, length, ascii) or sign * count, style)
        for count, (amount, sign, style) in zip(cells, parts, strict=True)
        if count
    ]
    rest = (ASCII_REST if ascii else REST) * (length - sum(cells))
    return (*filled, Span(rest, Style.FAINT))


def _sliver(amount: int, capacity: int, length: int, ascii: bool) -> str:
    """The sign of a part that is smaller than a cell, by eighths; nothing for a larger one."""
    eighths = 8 * amount * length // capacity
    if eighths >= 8:
        return ""
    return ASCII_SLIVER if ascii else SLIVERS[max(eighths, 1) - 1]


def shares(amounts: Sequence[int], capacity: int, length: int) -> list[int]:
    """Cells of each amount, `length` together at most.

    Any amount above 0 is visible: it takes its cell from the widest part, if nothing is free.
    """
    cells = []
    end = total = 0
    for amount in amounts:
        total += amount
        stop = min(length * total // capacity, length) if capacity else 0
        cells.append(max(stop - end, 1 if amount else 0))
        end = max(stop, end)
    while sum(cells) > length:
        cells[cells.index(max(cells))] -= 1
    return cells
