"""Sets of cores as bits, as the ledger wants them."""

from __future__ import annotations

from collections.abc import Iterable

from ttmem.wire.frames import GRID_LIMIT

Rectangle = tuple[int, int, int, int]


def core_mask(rectangles: Iterable[Rectangle]) -> int | None:
    """None if there is no such set of cores."""
    mask = 0
    for x0, y0, x1, y1 in rectangles:
        if not (x0 <= x1 < GRID_LIMIT and y0 <= y1 < GRID_LIMIT):
            return None
        row = ((1 << (x1 - x0 + 1)) - 1) << x0
        for y in range(y0, y1 + 1):
            mask |= row << (y * GRID_LIMIT)
    return mask or None
