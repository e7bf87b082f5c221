"""Tables and titled blocks of lines: the layout of every view."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from datetime import tzinfo
from functools import partial
from itertools import zip_longest
from typing import Any, Generic, TypeVar

from ttmem.sizes import several
from ttmem.snapshots import Snapshot
from ttmem.text import columns as columns_of
from ttmem.views.ink import (
    EMPTY,
    Line,
    Span,
    Style,
    blank,
    clip_line,
    faint,
    fitted,
    flow,
    indent,
    ink,
    line_columns,
    pad,
    paint,
)
from ttmem.views.names import moment

GAP = 2
UNLIMITED = 1 << 16
FILTER_ONLY = 1 << 16  # rank of a column that is never shown, but that the filter matches

UNKNOWN = faint("N/A")
Cell = Line | Callable[[int], Line]  # a function gets the width of its column


Row = TypeVar("Row")
N = TypeVar("N", int, float)


@dataclass(frozen=True, slots=True)
class Column(Generic[Row]):
    """A column, which makes its cells from rows. Amounts are never cut; text may be, where it says so."""

    title: str
    cell: Callable[[Row], str | Cell | None]  # None: unknown
    _: KW_ONLY
    right: bool = False  # numbers stand at the right
    width: int = 0  # at least, so that a growing number does not move its neighbours
    grow: int = 0  # its share of spare width; cells are cut if there is too little
    most: int = 0  # how wide it may grow, if that is more than its widest cell
    rank: int = 0  # the highest is dropped first, 0 never

    @property
    def least(self) -> int:
        """Columns that it takes without a single row."""
        return max(self.width, columns_of(self.title))

    @property
    def measured(self) -> bool:
        """Whether it is as wide as its widest cell."""
        return True

    def made(self, row: Row) -> Cell:
        found = self.cell(row)
        if isinstance(found, tuple):
            return found
        return UNKNOWN if found is None else ink(found) if isinstance(found, str) else found


def total_width(widths: Iterable[int], gap: int = GAP) -> int:
    every = list(widths)
    return sum(every) + gap * (len(every) - 1)


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells under titles, in the columns that fit."""

    columns: Sequence[Column[Any]]
    rows: Sequence[Sequence[Cell]]
    gap: int = GAP
    given: Sequence[int] = ()  # widths chosen by `fitted`
    shown: Sequence[int] = ()  # which columns those are

    @property
    def widths(self) -> Sequence[int]:
        return self.given or [self._natural(at) for at in range(len(self.columns))]

    def _natural(self, at: int) -> int:
        column = self.columns[at]
        if not column.measured:
            return column.least
        return max([column.least, *(line_columns(_whole(row[at])) for row in self.rows)])

    @property
    def width(self) -> int:
        return total_width(self.widths, self.gap)

    def fitted(self, width: int, gap: int = GAP) -> Table:
        """With those columns that fit into that width.

        While they do not fit, the one with the highest rank is dropped; rank 0 always stays. Columns
        with `grow` share what is left over.
        """
        columns, natural = self.columns, self.widths
        shown = {
            at: min(wide, column.least) if column.grow else wide
            for at, (column, wide) in enumerate(zip(columns, natural, strict=True))
            if column.rank != FILTER_ONLY
        }
        for at in sorted(shown, key=lambda at: (-columns[at].rank, -at)):
            if columns[at].rank == 0 or total_width(shown.values(), gap) <= width:
                break
            del shown[at]
        spare = width - total_width(shown.values(), gap)
        weight = sum(columns[at].grow for at in shown)
        for at in shown:
            if spare > 0 and columns[at].grow:
                part = spare * columns[at].grow // weight
                shown[at] += part
                spare -= part
                weight -= columns[at].grow
        return Table(
            [columns[at] for at in shown],
            [[row[at] for at in shown] for row in self.rows],
            gap,
            [min(wide, max(columns[at].most, natural[at])) for at, wide in shown.items()],
            list(shown),
        )

    def fitting(self, width: int) -> Table | None:
        """The table in that width: with fewer columns or closer together if need be; None if it cannot fit."""
        tables = (self.fitted(width, gap) for gap in range(self.gap, 0, -1))
        return next((table for table in tables if table.width <= width), None)

    @property
    def titles(self) -> Sequence[Line]:
        return [faint(column.title) for column in self.columns]

    def lines(self) -> list[Line]:
        return [self.line(cells) for cells in (self.titles, *self.rows)]

    def line(self, cells: Sequence[Cell]) -> Line:
        """A row of these columns."""
        out: list[Span] = []
        gap = blank(self.gap)
        for cell, width, column in zip(cells, self.widths, self.columns, strict=True):
            if out:
                out += gap
            out += fitted(cell if isinstance(cell, tuple) else cell(width), width, column.right)
        return tuple(out)

    def listed(self, cells: Sequence[Cell], width: int, cursor: bool = False) -> Line:
        """The same after the cursor's column; the row under the cursor is marked over the whole width."""
        line = (Span((">" if cursor else " ") * GUTTER), *self.line(cells))
        if GUTTER + self.width > width:
            line = clip_line(line, width)
        if not cursor:
            return line
        return (Span("".join(span.text for span in pad(line, width)), Style.CURSOR),)

    def facts(self, width: int) -> list[list[Line]]:
        """For narrow terminals: 'TITLE value' pairs, each row on lines of its own."""
        out: list[list[Line]] = []
        for row in self.rows:
            named = zip(self.columns, row, strict=True)
            facts = [(*faint(f"{column.title} "), *_whole(cell)) for column, cell in named if cell]
            out.append(indent(flow(facts, width - 2), 2, faint("-")))
        return out

    def fitted_lines(self, width: int, below: Sequence[Sequence[Line]] = ()) -> list[Line]:
        """As a table where it fits, one column in from the left; otherwise as facts.

        `below`: lines under each row.
        """
        fitting = self.fitting(width - 1)
        if fitting is None:
            head, rows = [], self.facts(width)
        else:
            titles, *cells = indent(fitting.lines(), 1)
            head, rows = [titles], [[line] for line in cells]
        more = zip_longest(rows, below, fillvalue=())
        return [*head, *(line for row, under in more for line in (*row, *under))]


def _whole(cell: Cell) -> Line:
    return cell if isinstance(cell, tuple) else cell(UNLIMITED)


MARK = 1  # column beside a title for the direction of the sort
GUTTER = 1  # for the cursor's sign, which terminals without colours need


@dataclass(frozen=True, slots=True)
class ListColumn(Column[Row]):
    """A column of a list that can be sorted. Text is cut to the width that it is given."""

    cell: Callable[[Row], str | Line | None]
    key: Callable[[Row], Any] | None = None  # what it sorts by; None for a row: unknown, last
    _: KW_ONLY
    most: int = UNLIMITED
    draw: Callable[[Row, int], Line] | None = None  # instead of `cell`: made for its width
    largest_first: bool = False  # how it sorts before it is reversed

    def made(self, row: Row) -> Cell:
        # Not super(): slots make a new class, which a call without arguments does not find.
        return Column.made(self, row) if self.draw is None else partial(self.draw, row)

    @property
    def measured(self) -> bool:
        return self.right and self.draw is None

    @property
    def least(self) -> int:
        """Its title and the mark always fit."""
        return max(self.width, columns_of(self.title) + (MARK if self.key else 0))


def number(
    title: str,
    cell: Callable[[Row], str | Line | None],
    key: Callable[[Row], float | None],
    width: int = 0,
    rank: int = 0,
) -> ListColumn[Row]:
    """A column of amounts or counts: at the right, the largest first."""
    return ListColumn(title, cell, key, right=True, width=width, rank=rank, largest_first=True)


def figure(
    title: str,
    get: Callable[[Row], N | None],
    write: Callable[[N], str] = "{:,}".format,
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
    get: Callable[[Row], N | None],
    write: Callable[[N], str] = str,
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
) -> ListColumn[Row]:

    def key(row: Row) -> str | None:
        return None if (found := get(row)) is None else found.casefold()

    return ListColumn(title, get, key, width=width, grow=grow, rank=rank)


def table_of(columns: Sequence[Column[Row]], rows: Sequence[Row]) -> Table:
    return Table(columns, [[column.made(row) for column in columns] for row in rows])


def row_lines(columns: Sequence[ListColumn[Row]], rows: Sequence[Row], width: int) -> list[Line]:
    """The titles and the rows, after the cursor's column."""
    table = table_of(columns, rows).fitted(width - GUTTER)
    return [table.listed(cells, width) for cells in (table.titles, *table.rows)]


def footer(above: int, below: int, match: tuple[int, int, str] | None, ascii: bool) -> Line:
    """'↑ 3 above  ↓ 40 below  60 of 5,000 match 'conv''."""
    up, down = ("^", "v") if ascii else ("↑", "↓")
    parts = [f"{up} {above:,} above"] if above > 0 else []
    parts += [f"{down} {below:,} below"] if below > 0 else []
    if match:
        found, of, wanted = match
        parts.append(f"{found:,} of {of:,} match '{wanted}'")
    return faint(" " * GUTTER + "  ".join(parts))


def section(title: str, remark: str, lines: list[Line]) -> list[Line]:
    """A block under its title; nothing if there are no lines."""
    if not lines:
        return []
    head = ink(title, Style.TITLE)
    return [(*head, Span("  "), *faint(remark)) if remark else head, *lines]


def stack(sections: Iterable[list[Line]], airy: bool = True) -> list[Line]:
    """The blocks that are not empty, with an empty line between them if `airy`."""
    lines: list[Line] = []
    for block in sections:
        if block:
            lines += [*([EMPTY] if lines and airy else []), *block]
    return lines


def page(sections: Iterable[list[Line]], width: int, color: bool) -> str:
    return paint(stack(sections), width, color)


def title_lines(
    snapshot: Snapshot, width: int, zone: tzinfo | None = None, short: bool = False
) -> list[Line]:
    """Host, time, server and counts; `short`: always one line, without the server."""
    name = str(snapshot.host.get("name", "host unknown"))
    when = faint(moment(snapshot.time_ns, zone))
    devices = several(len(snapshot.devices), "device")
    counts = f"{devices}, {several(len(snapshot.processes), 'process', 'processes')}"
    title = ink("ttmem", Style.TITLE)
    if short:
        return [clip_line((*title, *ink(f" · {name} · {counts} · "), *when), width)]
    server = [faint(text)] if (text := _server(snapshot)) else []
    return flow([title, ink(name), when, *server, ink(counts)], width, " · ")


def _server(snapshot: Snapshot) -> str:
    if isinstance(recording := snapshot.host.get("recording"), Mapping):
        end = ", its end" if recording["at_end"] else ""
        name = os.path.basename(recording["file"])
        position = recording.get("position")  # absent: a feed of an earlier version
        exactly = "" if position is None else f", #{position}"
        return f"{name} at {recording['offset_ns'] / 1e9:,.3f} s{exactly}{end}"
    server, version = snapshot.host.get("server"), snapshot.host.get("ttmem")
    pid = server.get("pid") if isinstance(server, Mapping) else None
    folder = snapshot.host.get("shared_memory")
    if pid is None:
        return f"shared memory {folder}" if folder else ""
    return f"server {version} (pid {pid})" if version else f"server pid {pid}"
