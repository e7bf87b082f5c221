"""Sets of cores as bits, as the ledger wants them."""

from __future__ import annotations

from collections.abc import Iterable

from ttmem.wire.frames import GRID_LIMIT

Rectangle = tuple[int, int, int, int]
# The first core of each of so many rows, and one more: times a row of cores it is a rectangle.
_ROWS = [sum(1 << (y * GRID_LIMIT) for y in range(rows + 1)) for rows in range(GRID_LIMIT)]


def core_mask(rectangles: Iterable[Rectangle]) -> int | None:
    """None if there is no such set of cores."""
    mask = 0
    for x0, y0, x1, y1 in rectangles:
        if not (x0 <= x1 < GRID_LIMIT and y0 <= y1 < GRID_LIMIT):
            return None
        row = (1 << (x1 - x0 + 1)) - 1
        mask |= row * _ROWS[y1 - y0] << (y0 * GRID_LIMIT + x0)
    return mask or None
