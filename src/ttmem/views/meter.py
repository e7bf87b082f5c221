"""`used / capacity` with a bar and a percentage."""

from __future__ import annotations

from ttmem.views.ink import Line, Span, Style, ink, pad

WARN_AT = 75
ALARM_AT = 90

_EIGHTHS = " ▏▎▍▌▋▊▉"
_FULL = "█"
_REST = "·"
_OVER = "over capacity"
PERCENT = 4  # columns of '100%'


def is_over(used: int | None, capacity: int | None) -> bool:
    """Whether reports exceed the capacity."""
    return used is not None and capacity is not None and used > capacity


def level(used: int, capacity: int | None) -> Style:
    """Green, yellow or red; faint if the capacity is unknown."""
    if capacity is None:
        return Style.FAINT
    if is_over(used, capacity):
        return Style.ALARM
    percent = 100 * used / capacity if capacity else 0
    if percent >= ALARM_AT:
        return Style.BAD
    return Style.WARN if percent >= WARN_AT else Style.GOOD


def percentage(used: int, capacity: int | None) -> str:
    """'38%'; '<1%' is not nothing, '>99%' is not all, and there is no more than '100%'."""
    if capacity is None:
        return "N/A"
    if is_over(used, capacity):
        return "over"
    return share_text(used / capacity if used else 0.0)


def share_text(share: float) -> str:
    """'38%' of a share from 0 to 1, by the same rule."""
    rounded = round(100 * share)
    if share > 0 and rounded == 0:
        return "<1%"
    return ">99%" if share < 1 and rounded == 100 else f"{rounded}%"


def meter(used: int, capacity: int | None, width: int, style: Style | None = None) -> Line:
    """Bar and percentage in exactly `width` columns; blank for an unknown capacity.

    `style`: for what may well be full; by default the level decides.
    """
    if capacity is None:
        return (Span(" " * width),)  # 'N/A' stands before it
    if style is None or is_over(used, capacity):
        style = level(used, capacity)
    if is_over(used, capacity):
        text = _OVER if width >= len(_OVER) else percentage(used, capacity)
        marks = width - len(text) - 1
        return ink(f"{'!' * marks} {text}" if marks > 0 else text.rjust(width), style)
    number = ink(percentage(used, capacity).rjust(PERCENT), style)
    length = width - PERCENT - 1
    if length < 1:
        return pad(number, width, right=True)
    return (*bar(used, capacity, length, style), Span(" "), *number)


def bar(used: int, capacity: int | None, length: int, style: Style) -> Line:
    """Blocks for what is used, in steps of an eighth; anything above 0 is visible."""
    eighths = 8 * length * used // capacity if capacity else 0
    if used and capacity:
        eighths = max(eighths, 1)
    full, part = divmod(eighths, 8)
    blocks = _FULL * full + (_EIGHTHS[part] if part else "")
    return (
        Span(blocks, style),
        Span(_REST * (length - len(blocks)), Style.FAINT),
    )
