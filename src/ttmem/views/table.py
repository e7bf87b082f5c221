"""Tables and titled blocks of lines: the layout of every view."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from itertools import zip_longest
from typing import Protocol

from ttmem.sizes import several
from ttmem.snapshots import Snapshot
from ttmem.text import columns as columns_of
from ttmem.views.ink import (
    EMPTY,
    Line,
    Span,
    Style,
    clip_line,
    faint,
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


def beside(blocks: Sequence[Sequence[Line]], widths: Sequence[int]) -> list[Line]:
    """Blocks of lines next to each other, one column in from the left."""
    out: list[Line] = []
    for cells in zip_longest(*blocks, fillvalue=EMPTY):
        line: list[Span] = [Span(" ")]
        for cell, width in zip(cells[:-1], widths[:-1], strict=True):
            line += [*pad(cell, width), Span(" " * GAP)]
        out.append((*line, *cells[-1]))
    return out


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
