"""Tables and titled blocks of lines: the layout of every view."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo
from typing import Any, Generic, Protocol, TypeVar

from ttmem.sizes import several
from ttmem.snapshots import Snapshot
from ttmem.text import ELLIPSIS, clip
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

Cell = Line | Callable[[int], Line]  # a function gets the width of its column


class Fits(Protocol):
    """What `fit` needs to know about a column."""

    @property
    def grow(self) -> int: ...
    @property
    def rank(self) -> int: ...


def fit(
    columns: Sequence[Fits], widths: Sequence[int], width: int, gap: int = GAP
) -> dict[int, int]:
    """The columns to show and how wide each is, by index.

    `widths` are the widths without growing. While the columns do not fit, the one with the highest
    rank is dropped; rank 0 always stays. Columns with `grow` share what is left over.
    """
    shown = dict(enumerate(widths))
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
    return shown


def total_width(widths: Iterable[int], gap: int = GAP) -> int:
    every = list(widths)
    return sum(every) + gap * (len(every) - 1)


@dataclass(frozen=True, slots=True)
class Column:
    title: str
    right: bool = False
    least: int = 0  # so that a growing number does not move its neighbours
    grow: int = 0  # its share of spare width; cells are cut if there is too little
    rank: int = 0  # the highest is dropped first, 0 never


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells under titles. Columns are as wide as their widest cell."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    gap: int = GAP
    given: Sequence[int] = ()  # widths chosen by `fitting`

    @property
    def widths(self) -> Sequence[int]:
        return self.given or [
            max(
                columns_of(column.title),
                column.least,
                *(line_columns(_line(row[at])) for row in self.rows),
            )
            for at, column in enumerate(self.columns)
        ]

    @property
    def width(self) -> int:
        return total_width(self.widths, self.gap)

    def fitting(self, width: int) -> Table | None:
        """The table in that width: with fewer columns or closer together if need be; None if it cannot fit."""
        natural = self.widths
        least = [
            min(wide, max(columns_of(column.title), column.least)) if column.grow else wide
            for column, wide in zip(self.columns, natural, strict=True)
        ]
        for gap in range(self.gap, 0, -1):
            shown = fit(self.columns, least, width, gap)
            if total_width(shown.values(), gap) <= width:
                break
        else:
            return None
        return Table(
            [self.columns[at] for at in shown],
            [[row[at] for at in shown] for row in self.rows],
            gap,
            [min(wide, natural[at]) for at, wide in shown.items()],
        )

    def lines(self) -> list[Line]:
        titles = [faint(column.title) for column in self.columns]
        return [self._row(cells) for cells in (titles, *self.rows)]

    def facts(self, width: int) -> list[Line]:
        """For narrow terminals: 'TITLE value' pairs, each row on lines of its own."""
        out: list[Line] = []
        for row in self.rows:
            named = zip(self.columns, row, strict=True)
            facts = [(*faint(f"{column.title} "), *_line(cell)) for column, cell in named if cell]
            out += indent(flow(facts, width - 2), 2, faint("-"))
        return out

    def fitted_lines(self, width: int) -> list[Line]:
        """As a table where it fits, one column in from the left; otherwise as facts."""
        fitting = self.fitting(width - 1)
        return self.facts(width) if fitting is None else indent(fitting.lines(), 1)

    def _row(self, cells: Sequence[Cell]) -> Line:
        out: list[Span] = []
        for cell, width, column in zip(cells, self.widths, self.columns, strict=True):
            if out:
                out.append(Span(" " * self.gap))
            out.extend(pad(clip_line(_line(cell, width), width), width, column.right))
        return tuple(out)


def _line(cell: Cell, width: int = UNLIMITED) -> Line:
    return cell(width) if callable(cell) else cell


Row = TypeVar("Row")
Placed = tuple[Line, int, bool]  # a cell, its width, and whether it stands at the right
MARK = 1  # column beside a title for the direction of the sort
GUTTER = 1  # for the cursor's sign, which terminals without colours need


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

    def cell(self, line: Line) -> Placed:
        cut = clip_start(line, self.width) if self.keep_end else line
        return cut, self.width, self.right


def fit_rows(columns: Sequence[ListColumn[Row]], rows: Sequence[Row], space: int) -> list[Fitted]:
    """The columns that fit into `space`, with the cells of the rows in sight."""
    lines = [[] if column.draw else [column.line(row, 0) for row in rows] for column in columns]
    widths = [_width(column, cells) for column, cells in zip(columns, lines, strict=True)]
    fitted = []
    for at, wide in fit(columns, widths, space).items():
        column = columns[at]
        width = min(wide, max(column.most, widths[at]))
        cells = [column.line(row, width) for row in rows] if column.draw else lines[at]
        fitted.append(Fitted(at, cells, width, column.right, column.keep_end))
    return fitted


def clip_start(line: Line, space: int) -> Line:
    """The end of a line, with an ellipsis where it was cut; in the style of its first span."""
    if line_columns(line) <= space or not line:
        return line
    text = "".join(span.text for span in line)
    backwards = clip(text[::-1], space)
    kept = backwards[::-1]
    if "/" in kept[:-1]:  # of a path whole names
        kept = ELLIPSIS + kept[kept.index("/") :]
    return (Span(kept, line[0].style),)


def _width(column: ListColumn[Row], cells: Sequence[Line]) -> int:
    return max([column.least, *map(line_columns, cells)]) if column.right else column.least


def row_line(cells: Iterable[Placed], width: int, cursor: bool = False) -> Line:
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


def row_lines(
    columns: Sequence[ListColumn[Row]], fitted: Sequence[Fitted], width: int
) -> list[Line]:
    """The titles, then the rows that the columns were fitted to."""
    titles = [one.cell(faint(columns[one.index].title)) for one in fitted]
    rows = zip(*([one.cell(line) for line in one.lines] for one in fitted), strict=True)
    return [row_line(cells, width) for cells in (titles, *rows)]


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
    server, version = snapshot.host.get("server"), snapshot.host.get("ttmem")
    pid = server.get("pid") if isinstance(server, Mapping) else None
    folder = snapshot.host.get("shared_memory")
    if pid is None:
        return f"shared memory {folder}" if folder else ""
    return f"server {version} (pid {pid})" if version else f"server pid {pid}"
