"""Aligned columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ttmem.views.ink import Line, Span, Style, clip_line, flow, indent, ink, line_columns, pad

GAP = 2


@dataclass(frozen=True, slots=True)
class Column:
    """A title and where its cells stand."""

    title: str
    right: bool = False
    least: int = 0  # columns, so that a growing number moves nothing


@dataclass(frozen=True, slots=True)
class Grid:
    """Rows under titles; columns are as wide as their widest cell."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[Line]]
    gap: int = GAP

    @property
    def widths(self) -> list[int]:
        """Of each column."""
        return [
            max(len(column.title), column.least, *(line_columns(row[at]) for row in self.rows))
            for at, column in enumerate(self.columns)
        ]

    @property
    def width(self) -> int:
        """Of the whole grid."""
        return sum(self.widths) + self.gap * (len(self.columns) - 1)

    def fitting(self, room: int) -> Grid | None:
        """This grid, closer together if need be; None if it does not fit at all."""
        closer = (replace(self, gap=gap) for gap in range(self.gap, 0, -1))
        return next((grid for grid in closer if grid.width <= room), None)

    def lines(self, last: int | None = None) -> list[Line]:
        """The titles and the rows; cells of the last column are cut to `last`, if given."""
        widths = self.widths
        if last is not None:
            widths[-1] = last
        titles = [ink(column.title, Style.FAINT) for column in self.columns]
        return [self._line(cells, widths) for cells in (titles, *self.rows)]

    def facts(self, room: int) -> list[Line]:
        """For narrow windows: 'TITLE value' one after the other, each row from a new line."""
        out: list[Line] = []
        for row in self.rows:
            named = zip(self.columns, row, strict=True)
            facts = [
                (*ink(f"{column.title} ", Style.FAINT), *cell) for column, cell in named if cell
            ]
            out += indent(flow(facts, room - 2), 2, ink("-", Style.FAINT))
        return out

    def _line(self, cells: Sequence[Line], widths: list[int]) -> Line:
        out: list[Span] = []
        for at, (cell, width, column) in enumerate(zip(cells, widths, self.columns, strict=True)):
            if at:
                out.append(Span(" " * self.gap))
            out.extend(pad(clip_line(cell, width), width, column.right))
        return tuple(out)
