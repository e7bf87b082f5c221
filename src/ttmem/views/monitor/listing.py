"""Lists: columns that fit, sorted and filtered rows, a cursor, and a few lines above."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, TypeVar

from ttmem.text import ELLIPSIS, clean, clip
from ttmem.text import columns as columns_of
from ttmem.views import table
from ttmem.views.ink import (
    EMPTY,
    Line,
    Span,
    Style,
    blank,
    clip_line,
    faint,
    fitted,
    indent,
    ink,
    line_columns,
    pad,
    paragraph,
)
from ttmem.views.monitor.state import Drawn, Look, State, Target

Row = TypeVar("Row")
Cell = tuple[Line, int, bool]  # its text, its width, and whether it stands at the right
GAP = table.GAP
UNLIMITED = 1 << 30
MARK = 1  # column beside a title for the direction of the sort


@dataclass(frozen=True, slots=True)
class ListColumn(Generic[Row]):
    """One column. Numbers are never cut; text may be."""

    title: str
    cell: Callable[[Row], str | Line | None]  # None: unknown
    key: Callable[[Row], Any] | None = None  # what it sorts by; None for a row: unknown, last
    right: bool = False  # numbers stand at the right
    width: int = 0  # at least, beside the title's
    grow: int = 0  # its share of the columns that are left over
    most: int = UNLIMITED  # how wide it may grow
    rank: int = 0  # 0 stays; of the others the highest is dropped first
    draw: Callable[[Row, int], Line] | None = None  # instead of `cell`: made for its width
    largest_first: bool = False  # how it sorts before it is reversed
    keep_end: bool = False  # of a path the beginning is cut, not the line number

    def line(self, row: Row, width: int) -> Line:
        if self.draw is not None:
            return self.draw(row, width)
        found = self.cell(row)
        if found is None:
            return faint("N/A")
        return ink(found) if isinstance(found, str) else found

    @property
    def least(self) -> int:
        """Columns that it takes without a single row; its title and the mark always fit."""
        return max(self.width, columns_of(self.title) + (MARK if self.key else 0))


def number(
    title: str,
    cell: Callable[[Row], str | Line | None],
    key: Callable[[Row], int | None],
    width: int = 0,
    rank: int = 0,
) -> ListColumn[Row]:
    """A column of amounts or counts: at the right, the largest first."""
    return ListColumn(title, cell, key, right=True, width=width, rank=rank, largest_first=True)


def figure(
    title: str,
    get: Callable[[Row], int | None],
    write: Callable[[int], str] = "{:,}".format,
    *,
    width: int = 0,
    rank: int = 0,
) -> ListColumn[Row]:
    """A column of numbers that are all written alike."""

    def cell(row: Row) -> str | None:
        return None if (found := get(row)) is None else write(found)

    return number(title, cell, get, width, rank)


def label(
    title: str,
    get: Callable[[Row], int | None],
    write: Callable[[int], str] = str,
    *,
    width: int = 0,
    rank: int = 0,
) -> ListColumn[Row]:
    """A column of numbers that name something (a pid, an address): at the right, the lowest first."""
    return replace(figure(title, get, write, width=width, rank=rank), largest_first=False)


def phrase(
    title: str,
    get: Callable[[Row], str | None],
    *,
    width: int = 0,
    grow: int = 0,
    rank: int = 0,
    keep_end: bool = False,
) -> ListColumn[Row]:

    def key(row: Row) -> str | None:
        return None if (found := get(row)) is None else found.casefold()

    return ListColumn(title, get, key, width=width, grow=grow, rank=rank, keep_end=keep_end)


@dataclass(frozen=True, slots=True)
class Fitted:
    """A column that is drawn, with its cells and its width."""

    index: int
    lines: list[Line]
    width: int
    right: bool
    keep_end: bool

    def cell(self, line: Line) -> Cell:
        cut = clip_start(line, self.width) if self.keep_end else line
        return cut, self.width, self.right


def fit(columns: Sequence[ListColumn[Row]], rows: Sequence[Row], room: int) -> list[Fitted]:
    """The columns that fit into `room`, with the cells of the rows in sight."""
    lines = [[] if column.draw else [column.line(row, 0) for row in rows] for column in columns]
    widths = [_width(column, cells) for column, cells in zip(columns, lines, strict=True)]
    fitted = []
    for at, wide in table.fit(columns, widths, room).items():
        column = columns[at]
        width = min(wide, max(column.most, widths[at]))
        cells = [column.line(row, width) for row in rows] if column.draw else lines[at]
        fitted.append(Fitted(at, cells, width, column.right, column.keep_end))
    return fitted


def clip_start(line: Line, room: int) -> Line:
    """The end of a line, with an ellipsis where it was cut; in the style of its first span."""
    if line_columns(line) <= room or not line:
        return line
    text = "".join(span.text for span in line)
    backwards = clip(text[::-1], room)
    kept = backwards[::-1]
    if "/" in kept[:-1]:  # of a path whole names
        kept = ELLIPSIS + kept[kept.index("/") :]
    return (Span(kept, line[0].style),)


def _width(column: ListColumn[Row], cells: Sequence[Line]) -> int:
    return max([column.least, *map(line_columns, cells)]) if column.right else column.least


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


GUTTER = 1  # for the cursor's sign, which terminals without colours need


def title(text: str, sorts: bool, falling: bool, ascii: bool) -> Line:
    """The title of a column; the one sorted by has an arrow."""
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
    """Where there is only one line: '3 processes, no room to list them'."""
    many = noun + ("es" if noun.endswith("s") else "s")
    text = (
        f"1 {noun}, no room to list it" if count == 1 else f"{count:,} {many}, no room to list them"
    )
    return faint(" " * GUTTER + text)


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
        state: State,
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
            self._move(key, self._room(height))
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
        room = self._room(height)
        start = self._start(room)
        visible = self.rows[start : start + room]
        fitted = fit(self._columns, visible, width - GUTTER)
        if self.rows and not room:
            line = clip_line(no_room(len(self.rows), self._noun), width)
            return Drawn([line] if height == 1 else [self._header(fitted, width, ascii), line])
        lines = [self._header(fitted, width, ascii)]
        targets = self._header_targets(fitted, top)
        for at in range(len(visible)):
            cells = (one.cell(one.lines[at]) for one in fitted)
            targets.append(Target(top + len(lines), partial(_point, self._page, start + at)))
            lines.append(row_line(cells, width, lit and start + at == self._cursor))
        if not self.rows and room:
            sentence = paragraph(self._nothing(), width - GUTTER, Style.FAINT)
            lines += [clip_line(line, width) for line in indent(sentence, GUTTER)[:room]]
        if self._has_footer(height):
            match = (len(self.rows), self._all, self._filter) if self._filter else None
            below = len(self.rows) - start - room
            lines.append(clip_line(footer(start, below, match, ascii), width))
        return Drawn(lines, targets)

    @property
    def _cursor(self) -> int:
        return max(0, min(self._of.cursor, len(self.rows) - 1))

    def _has_footer(self, height: int) -> bool:
        more = len(self.rows) > height - 1
        return height > 1 and (more or (height > 2 and bool(self._filter)))

    def _room(self, height: int) -> int:
        """Lines for rows, under the header and above the footer."""
        return max(height - 1 - self._has_footer(height), 0)

    def _start(self, room: int) -> int:
        """The first visible row: it moves only as far as the cursor needs."""
        near = max(self._cursor - room + 1, min(self._of.top, self._cursor))
        return max(0, min(near, len(self.rows) - room))

    def _move(self, key: str, room: int) -> None:
        last, page = len(self.rows) - 1, max(room, 1)
        steps = {"up": -1, "down": 1, "pageup": -page, "pagedown": page}
        ends = {"home": 0, "end": last}
        wanted = ends[key] if key in ends else self._cursor + steps[key]
        self._of.top = self._start(room)
        self._of.cursor = max(0, min(wanted, last))
        self._of.top = self._start(room)

    def _header(self, fitted: Sequence[Fitted], width: int, ascii: bool) -> Line:
        cells = []
        for one in fitted:
            column = self._columns[one.index]
            falling = column.largest_first != self._of.reverse
            sorts = one.index == self.sort_column
            cells.append(one.cell(title(column.title, sorts, falling, ascii)))
        return row_line(cells, width)

    def _header_targets(self, fitted: Sequence[Fitted], line: int) -> list[Target]:
        targets, at = [], GUTTER
        for one in fitted:
            if one.index in self._sorts:
                number = (self._sorts.index(one.index) - self._from) % len(self._sorts)
                act = partial(_sort_by, self._page, number)
                targets.append(Target(line, act, at, at + one.width))
            at += one.width + GAP
        return targets

    def _nothing(self) -> str:
        return f"nothing matches '{self._filter}'" if self._all else self._empty


def _point(page: str, row: int, state: State) -> None:
    state.of(page).cursor = row


def _sort_by(page: str, number: int, state: State) -> None:
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
        room = max(self.look.height - LEAST_LIST - len(self.below), 0)
        roomy = 2 * len(self.above) < room
        return [*self.above, EMPTY] if roomy else list(self.above[:room])

    @property
    def _height(self) -> int:
        return self.look.height - len(self._above) - len(self.below)
