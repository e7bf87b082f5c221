"""Lines made of coloured spans.

A span's text is always clean, so that no other process can write to the terminal.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from functools import lru_cache
from typing import NamedTuple

from ttmem.text import clean, clip, columns, wrap


class Style(Enum):
    """ANSI codes of the 16 colours, so that the user's own palette decides."""

    PLAIN = ""
    TITLE = "1"
    FAINT = "90"
    GOOD = "32"
    WARN = "33"
    BAD = "31"
    ALARM = "1;31"
    LABEL = "33;1"  # ids, headings, limits
    BORDER = "32;2"
    BANNER = "1;30;43"  # PAUSED, DISCONNECTED: cannot be overlooked
    CURSOR = "7"  # the chosen row or cell
    DRAM = "34"  # kinds of memory, the same in every bar, chart and map
    L1 = "32;1"
    L1_SMALL = "36"
    CB = "35"
    TRACE = "94"
    RING = "93"
    HEAT_0 = "90;1"  # pressure of a core, from nothing to over 90 %
    HEAT_1 = "32;3"
    HEAT_2 = "92"
    HEAT_3 = "33;3"
    HEAT_4 = "31;3"

    # That of Enum is written in Python, and the monitor asks for it all the time.
    __hash__ = object.__hash__


class Span(NamedTuple):
    """Text in one style; made by `ink`. A tuple: the monitor makes and compares thousands a second."""

    text: str
    style: Style = Style.PLAIN


Line = tuple[Span, ...]
EMPTY: Line = ()


@lru_cache(1 << 12)
def ink(text: str, style: Style = Style.PLAIN) -> Line:
    """A line of one span; cached, because most stay the same from one refresh to the next."""
    return (Span(clean(text), style),)


def faint(text: str) -> Line:
    """For labels, units, and what is unknown."""
    return ink(text, Style.FAINT)


# The monitor measures the same thousand lines for each screen; each is kilobytes.
@lru_cache(1 << 11)
def line_columns(line: Line) -> int:
    total = 0
    for text, _ in line:  # most have some 30 spans, so there is no call for each of them
        total += len(text) if text.isascii() else columns(text)
    return total


@lru_cache(1 << 8)
def blank(width: int) -> Line:
    return (Span(" " * width),)


def pad(line: Line, width: int, right: bool = False) -> Line:
    """The line filled with spaces to `width` columns."""
    return line if line_columns(line) > width else fitted(line, width, right)


@lru_cache(1 << 12)
def fitted(line: Line, width: int, right: bool = False) -> Line:
    """The line in exactly `width` columns: cut, or filled."""
    missing = width - line_columns(line)
    if missing == 0:
        return line
    if missing < 0:
        return clip_line(line, width)
    return blank(missing) + line if right else line + blank(missing)


def clip_line(line: Line, width: int) -> Line:
    """The line cut to `width` columns, with an ellipsis."""
    if line_columns(line) <= width:
        return line
    kept: list[Span] = []
    for span in line:
        if columns(span.text) >= width:
            kept.append(Span(clip(span.text + " ", width), span.style))
            break
        kept.append(span)
        width -= columns(span.text)
    return tuple(kept)


def joined(parts: Sequence[Line], gap: str) -> Line:
    """The parts in one line, with the gap between them."""
    return tuple(span for at, part in enumerate(parts) for span in (*ink(gap * (at > 0)), *part))


def flow(facts: Iterable[Line], width: int, gap: str = "  ") -> list[Line]:
    """Facts in a row, wrapped between facts; a fact is broken only if it is wider than a line."""
    lines: list[Line] = []
    for fact in facts:
        joined = (*lines[-1], Span(gap), *fact) if lines else fact
        if lines and line_columns(joined) <= width:
            lines[-1] = joined
        elif line_columns(fact) <= width:
            lines.append(fact)
        else:
            lines.extend(paragraph("".join(span.text for span in fact), width))
    return lines


def paragraph(text: str, width: int, style: Style = Style.PLAIN) -> list[Line]:
    """A sentence in as many lines as it needs."""
    return [ink(piece, style) for piece in wrap(clean(text), width)]


def indent(lines: Iterable[Line], by: int, first: Line = EMPTY) -> list[Line]:
    """The lines moved to the right; `first` fills the gap on the first line."""
    return [(*(pad(first, by) if at == 0 else blank(by)), *line) for at, line in enumerate(lines)]


def paint(lines: Sequence[Line], width: int, color: bool) -> str:
    """The text for a terminal of that width, without trailing spaces."""
    return "\n".join(_painted(clip_line(line, width), color) for line in lines)


def _painted(line: Line, color: bool) -> str:
    if not color:
        return "".join(span.text for span in line).rstrip()
    out = []
    for span in line:
        plain = span.style is Style.PLAIN or not span.text.strip()
        out.append(span.text if plain else f"\x1b[{span.style.value}m{span.text}\x1b[0m")
    return "".join(out).rstrip()
