"""Lists on a page: sorted and filtered rows, a cursor, and a few lines above."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from ttmem.sizes import several
from ttmem.text import clean
from ttmem.views.ink import EMPTY, Line, Style, clip_line, faint, indent, ink, paragraph
from ttmem.views.monitor.state import Drawn, Look, MonitorState, Target
from ttmem.views.table import GAP, GUTTER, ListColumn, Table, footer, table_of

Row = TypeVar("Row")


def filtered(columns: Sequence[ListColumn[Row]], rows: Sequence[Row], text: str) -> Sequence[Row]:
    """The rows with a cell that contains the text, also in a column that is not shown."""
    wanted = clean(text).casefold()
    if not wanted:
        return rows
    cells = [column.cell for column in columns]
    return [row for row in rows if any(wanted in seen(cell(row)) for cell in cells)]


def ordered(column: ListColumn[Row], rows: Sequence[Row], reverse: bool) -> list[Row]:
    """The rows sorted by that column, stable; unknown values are always last."""
    key = column.key
    if key is None:
        return list(rows)
    keyed = [(key(row), row) for row in rows]
    known = [pair for pair in keyed if pair[0] is not None]
    known.sort(key=lambda pair: pair[0], reverse=column.largest_first != reverse)
    return [row for _, row in known] + [row for value, row in keyed if value is None]


def seen(cell: str | Line | None) -> str:
    if cell is None:
        return "n/a"
    text = clean(cell) if isinstance(cell, str) else "".join(span.text for span in cell)
    return text.casefold()


MOVES = ("up", "down", "pageup", "pagedown", "home", "end")


class Listing(Generic[Row]):
    """The rows of a page, sorted and filtered as the user chose (`state.of(page)`, `state.filter`).

    `first`: the column that sorts by default; `PageState.sort` counts from it.
    `empty`: shown if there are no rows. `noun`: what a row is.
    """

    def __init__(
        self,
        page: str,
        columns: Sequence[ListColumn[Row]],
        rows: Sequence[Row],
        state: MonitorState,
        *,
        first: int = 0,
        empty: str = "nothing to show",
        noun: str = "row",
    ) -> None:
        self._page = page
        self._columns = columns
        self._sorts = [at for at, column in enumerate(columns) if column.key]
        self._from = self._sorts.index(first)
        self._of = state.of(page)
        self._filter = state.filter
        self._empty = empty
        self._noun = noun
        self._all = len(rows)
        chosen = filtered(columns, rows, state.filter)
        self.rows = ordered(columns[self.sort_column], chosen, self._of.reverse)

    @property
    def sort_column(self) -> int:
        return self._sorts[(self._from + self._of.sort) % len(self._sorts)]

    @property
    def chosen(self) -> Row | None:
        return self.rows[self._cursor] if self.rows else None

    def key(self, key: str, height: int) -> bool:
        """Moves the cursor or changes the order; False if the key does neither."""
        if key in MOVES:
            self._move(key, self._space(height))
        elif key == "s":
            self._of.sort = (self._of.sort + 1) % len(self._sorts)
            self._of.reverse, self._of.cursor, self._of.top = False, 0, 0
        elif key == "S":
            self._of.reverse, self._of.cursor, self._of.top = not self._of.reverse, 0, 0
        else:
            return False
        return True

    def draw(
        self, width: int, height: int, top: int = 0, ascii: bool = False, lit: bool = True
    ) -> Drawn:
        """At most `height` lines; `top` is the line of the page on which the listing begins.

        `lit`: the cursor shows; a page with two lists shows it in one of them.
        """
        if height < 1:
            return Drawn([])
        space = self._space(height)
        start = self._start(space)
        visible = self.rows[start : start + space]
        table = table_of(self._columns, visible).fitted(width - GUTTER)
        if self.rows and not space:
            line = clip_line(self._no_space(), width)
            return Drawn([line] if height == 1 else [self._header(table, width, ascii), line])
        lines = [self._header(table, width, ascii)]
        targets = self._header_targets(table, top)
        for at, row in enumerate(table.rows, start):
            targets.append(Target(top + len(lines), partial(_point, self._page, at)))
            lines.append(table.listed(row, width, lit and at == self._cursor))
        if not self.rows and space:
            sentence = paragraph(self._nothing(), width - GUTTER, Style.FAINT)
            lines += [clip_line(line, width) for line in indent(sentence, GUTTER)[:space]]
        if self._has_footer(height):
            match = (len(self.rows), self._all, self._filter) if self._filter else None
            below = len(self.rows) - start - space
            lines.append(clip_line(footer(start, below, match, ascii), width))
        return Drawn(lines, targets)

    @property
    def _cursor(self) -> int:
        return max(0, min(self._of.cursor, len(self.rows) - 1))

    def _has_footer(self, height: int) -> bool:
        more = len(self.rows) > height - 1
        return height > 1 and (more or (height > 2 and bool(self._filter)))

    def _space(self, height: int) -> int:
        """Lines for rows, under the header and above the footer."""
        return max(height - 1 - self._has_footer(height), 0)

    def _start(self, space: int) -> int:
        """The first visible row: it moves only as far as the cursor needs."""
        near = max(self._cursor - space + 1, min(self._of.top, self._cursor))
        return max(0, min(near, len(self.rows) - space))

    def _move(self, key: str, space: int) -> None:
        last, page = len(self.rows) - 1, max(space, 1)
        steps = {"up": -1, "down": 1, "pageup": -page, "pagedown": page}
        ends = {"home": 0, "end": last}
        wanted = ends[key] if key in ends else self._cursor + steps[key]
        self._of.top = self._start(space)
        self._of.cursor = max(0, min(wanted, last))
        self._of.top = self._start(space)

    def _header(self, table: Table, width: int, ascii: bool) -> Line:
        """The titles; that of the column which sorts has an arrow."""
        by = self._columns[self.sort_column]
        falling = by.largest_first != self._of.reverse
        arrow = ("v" if falling else "^") if ascii else ("▼" if falling else "▲")
        titles = [faint(self._columns[at].title) for at in table.shown]
        if self.sort_column in table.shown:
            at = table.shown.index(self.sort_column)
            titles[at] = ink(by.title + arrow, Style.LABEL)
        return table.listed(titles, width)

    def _header_targets(self, table: Table, line: int) -> list[Target]:
        targets, start = [], GUTTER
        for at, width in zip(table.shown, table.widths, strict=True):
            if at in self._sorts:
                number = (self._sorts.index(at) - self._from) % len(self._sorts)
                act = partial(_sort_by, self._page, number)
                targets.append(Target(line, act, start, start + width))
            start += width + GAP
        return targets

    def _no_space(self) -> Line:
        """Where there is only one line: '3 processes, no space to list them'."""
        many = self._noun + ("es" if self._noun.endswith("s") else "s")
        them = "it" if len(self.rows) == 1 else "them"
        count = several(len(self.rows), self._noun, many)
        return faint(" " * GUTTER + f"{count}, no space to list {them}")

    def _nothing(self) -> str:
        return f"nothing matches '{self._filter}'" if self._all else self._empty


def _point(page: str, row: int, state: MonitorState) -> None:
    state.of(page).cursor = row


def _sort_by(page: str, number: int, state: MonitorState) -> None:
    """A click on a title: sorts by it; a second one turns the order round."""
    of = state.of(page)
    of.reverse = not of.reverse if of.sort == number else False
    of.sort, of.cursor, of.top = number, 0, 0


LEAST_LIST = 5  # lines that the list keeps, whatever stands above it


@dataclass(frozen=True, slots=True)
class ListPage(Generic[Row]):
    """A list with lines above it, most important first; they give way in a low window."""

    above: Sequence[Line]
    table: Listing[Row]
    look: Look
    below: Sequence[Line] = ()  # as many lines as the page has for them

    def draw(self) -> Drawn:
        above = self._above
        table = self.table.draw(self.look.width, self._height, len(above), self.look.ascii)
        gap = [EMPTY] * (self._height - len(table.lines) if self.below else 0)
        return Drawn([*above, *table.lines, *gap, *self.below], table.targets)

    def key(self, key: str) -> bool:
        return self.table.key(key, self._height)

    @property
    def _above(self) -> list[Line]:
        space = max(self.look.height - LEAST_LIST - len(self.below), 0)
        spacious = 2 * len(self.above) < space
        return [*self.above, EMPTY] if spacious else list(self.above[:space])

    @property
    def _height(self) -> int:
        return self.look.height - len(self._above) - len(self.below)
