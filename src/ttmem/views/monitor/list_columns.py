"""Columns of a listing: what they show, how they sort, and how many of them fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from ttmem.views.ink import Line, Span, faint, ink, line_columns
from ttmem.views.text import ELLIPSIS, clip
from ttmem.views.text import columns as columns_of

Row = TypeVar("Row")
Cell = tuple[Line, int, bool]  # its text, its width, and whether it stands at the right
GAP = 2
MARK = 1  # column beside a title for the direction of the sort


@dataclass(frozen=True, slots=True)
class ListColumn(Generic[Row]):
    """One column. A number is never cut, whatever its `width`; a text may be."""

    title: str
    cell: Callable[[Row], str | Line | None]  # None: unknown
    key: Callable[[Row], Any] | None = None  # what it sorts by; None for a row: unknown, last
    right: bool = False  # numbers stand at the right
    width: int = 0  # at least, beside the title's
    grow: int = 0  # its share of the room that is left
    rank: int = 0  # 0 stays; of the others the highest goes first when there is no room
    largest_first: bool = False  # how it sorts before it is reversed
    keep_end: bool = False  # where the cells are paths: the beginning is cut, not the line number

    def line(self, row: Row) -> Line:
        """The cell as it is drawn."""
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
    """A column of texts, sorted as they are read."""

    def key(row: Row) -> str | None:
        return None if (found := get(row)) is None else found.casefold()

    return ListColumn(title, get, key, width=width, grow=grow, rank=rank, keep_end=keep_end)


@dataclass(frozen=True, slots=True)
class Fitted:
    """A column that is drawn: its cells, and the room that it got."""

    index: int
    lines: list[Line]
    width: int
    right: bool
    keep_end: bool

    def cell(self, line: Line) -> Cell:
        """The line, and where it stands."""
        cut = clip_start(line, self.width) if self.keep_end else line
        return cut, self.width, self.right


def fit(columns: Sequence[ListColumn[Row]], rows: Sequence[Row], room: int) -> list[Fitted]:
    """The columns that fit into `room`, with the cells of the rows in sight."""
    lines = [[column.line(row) for row in rows] for column in columns]
    widths = [_width(column, cells) for column, cells in zip(columns, lines, strict=True)]
    kept = list(range(len(columns)))
    for at in sorted(kept, key=lambda at: (-columns[at].rank, -at)):
        if columns[at].rank == 0 or _total(widths, kept) <= room:
            break
        kept.remove(at)
    _share(columns, kept, widths, room - _total(widths, kept))
    return [
        Fitted(at, lines[at], widths[at], columns[at].right, columns[at].keep_end) for at in kept
    ]


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


def _total(widths: Sequence[int], kept: Sequence[int]) -> int:
    return sum(widths[at] for at in kept) + GAP * (len(kept) - 1)


def _share(
    columns: Sequence[ListColumn[Row]], kept: Sequence[int], widths: list[int], rest: int
) -> None:
    """Gives the rest of the room to the columns that grow."""
    weight = sum(columns[at].grow for at in kept)
    for at in kept:
        if rest > 0 and columns[at].grow:
            part = rest * columns[at].grow // weight
            widths[at] += part
            rest -= part
            weight -= columns[at].grow
