"""A filled chart: Braille dots, two across and four high in each cell, or ASCII."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ttmem.views.ink import Line, Span, Style

PEAK, ASCII_PEAK = "◆", "^"
_BRAILLE = 0x2800
_LEFT = (0x00, 0x40, 0x44, 0x46, 0x47)  # so many dots from the bottom
_RIGHT = (0x00, 0x80, 0xA0, 0xB0, 0xB8)
_DOTS = [[chr(_BRAILLE + left + right) for right in _RIGHT] for left in _LEFT]
_DOTS[0][0] = " "
_ASCII = " .#"  # none, lower half, all of a cell


@dataclass(frozen=True, slots=True)
class Raster:
    """How finely a cell can be filled."""

    across: int
    levels: int

    def sign(self, filled: Sequence[int]) -> str:
        """The cell with so many levels filled in each of its columns."""
        return _ASCII[filled[0]] if self.across == 1 else _DOTS[filled[0]][filled[1]]


FINE, COARSE = Raster(2, 4), Raster(1, 2)


def raster(ascii: bool) -> Raster:
    """The finest that the terminal can show."""
    return COARSE if ascii else FINE


def chart(
    values: Sequence[int | None],
    rows: int,
    top: int,
    style: Style,
    *,
    limit: int | None = None,
    ascii: bool = False,
    peak_at: int | None = None,
) -> list[Line]:
    """`rows` lines, the highest first; `values` has `raster(ascii).across` of them for each cell.

    What is known shows, be it 0; a gap is empty. What lies above `limit` is in the colour of alarm.
    The highest value has a mark on it; `peak_at`: which one, if there are several.
    """
    grain = raster(ascii)
    heights = [_height(value, rows * grain.levels, top) for value in values]
    peak = _peak(values, heights, rows, grain, peak_at)
    mark = ASCII_PEAK if ascii else PEAK
    out = []
    for row in range(rows - 1, -1, -1):
        base = row * grain.levels
        # What each height fills of this row, once, instead of once for every column.
        fills = [max(0, min(h - base, grain.levels)) for h in range(rows * grain.levels + 1)]
        filled = [fills[height] for height in heights]
        signs = [grain.sign(cell) for cell in zip(*[iter(filled)] * grain.across, strict=True)]
        above = limit is not None and top * row >= limit * rows
        out.append(_line("".join(signs), Style.ALARM if above else style, peak, row, mark))
    return out


def _height(value: int | None, levels: int, top: int) -> int:
    if value is None:
        return 0
    return max(1, min(-(-value * levels // top), levels)) if top else 1


def _peak(
    values: Sequence[int | None],
    heights: Sequence[int],
    rows: int,
    grain: Raster,
    peak_at: int | None,
) -> tuple[int, int] | None:
    """The cell above the highest value, or its own at the upper edge."""
    known = [(value, -at) for at, value in enumerate(values) if value]
    if not known:
        return None
    at = -max(known)[1] if peak_at is None else peak_at
    return at // grain.across, min(-(-heights[at] // grain.levels), rows - 1)


def _line(text: str, style: Style, peak: tuple[int, int] | None, row: int, mark: str) -> Line:
    if peak is None or peak[1] != row:
        return (Span(text, style),)
    at = peak[0]
    spans = (Span(text[:at], style), Span(mark, Style.LABEL), Span(text[at + 1 :], style))
    return tuple(span for span in spans if span.text)
