"""The lines of a listing: titles, rows, and what is out of sight."""

from __future__ import annotations

from collections.abc import Iterable

from ttmem.views.ink import Line, Span, Style, blank, clip_line, faint, fitted, ink, pad
from ttmem.views.monitor.list_columns import GAP, Cell

GUTTER = 1  # for the cursor's sign, which terminals without colours need


def title(text: str, sorts: bool, falling: bool, ascii: bool) -> Line:
    """The title of a column; that which sorts is marked with its direction."""
    if not sorts:
        return faint(text)
    mark = ("v" if falling else "^") if ascii else ("▼" if falling else "▲")
    return ink(text + mark, Style.LABEL)


def row_line(cells: Iterable[Cell], width: int, cursor: bool = False) -> Line:
    """Cells side by side; the row under the cursor is marked over the whole width."""
    spans = [Span((">" if cursor else " ") * GUTTER)]
    taken = GUTTER
    for at, (cell, size, right) in enumerate(cells):
        if at:
            spans += blank(GAP)
        spans += fitted(cell, size, right)
        taken += size + (GAP if at else 0)
    line = tuple(spans) if taken <= width else clip_line(tuple(spans), width)
    if not cursor:
        return line
    return (Span("".join(span.text for span in pad(line, width)), Style.CURSOR),)


def footer(above: int, below: int, match: tuple[int, int, str] | None, ascii: bool) -> Line:
    """'↑ 3 above  ↓ 40 below  60 of 5,000 match 'conv''."""
    up, down = ("^", "v") if ascii else ("↑", "↓")
    parts = [f"{up} {above:,} above"] if above > 0 else []
    parts += [f"{down} {below:,} below"] if below > 0 else []
    if match:
        found, of, wanted = match
        parts.append(f"{found:,} of {of:,} match '{wanted}'")
    return faint(" " * GUTTER + "  ".join(parts))


def no_room(count: int, noun: str) -> Line:
    """Where there is one line for everything: '3 processes, no room to list them'."""
    many = noun + ("es" if noun.endswith("s") else "s")
    words = (
        f"1 {noun}, no room to list it" if count == 1 else f"{count:,} {many}, no room to list them"
    )
    return faint(" " * GUTTER + words)
