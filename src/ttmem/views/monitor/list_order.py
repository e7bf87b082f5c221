"""Which rows of a listing are shown, and in which order."""

from __future__ import annotations

from collections.abc import Sequence

from ttmem.views.ink import Line
from ttmem.views.monitor.list_columns import ListColumn, Row
from ttmem.views.text import clean


def filtered(columns: Sequence[ListColumn[Row]], rows: Sequence[Row], text: str) -> Sequence[Row]:
    """The rows with a cell, also of a column that is not in sight, that contains the text."""
    wanted = clean(text).casefold()
    if not wanted:
        return rows
    cells = [column.cell for column in columns]
    return [row for row in rows if any(wanted in seen(cell(row)) for cell in cells)]


def ordered(column: ListColumn[Row], rows: Sequence[Row], reverse: bool) -> list[Row]:
    """The rows by that column; equal ones keep their order, unknown ones are last either way."""
    key = column.key
    if key is None:
        return list(rows)
    keyed = [(key(row), row) for row in rows]
    known = [pair for pair in keyed if pair[0] is not None]
    known.sort(key=lambda pair: pair[0], reverse=column.largest_first != reverse)
    return [row for _, row in known] + [row for value, row in keyed if value is None]


def seen(cell: str | Line | None) -> str:
    """What the user reads in a cell, for comparing."""
    if cell is None:
        return "n/a"
    text = clean(cell) if isinstance(cell, str) else "".join(span.text for span in cell)
    return text.casefold()
