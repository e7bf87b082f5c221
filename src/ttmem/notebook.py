"""Tables for notebooks. Everything is escaped: names of ops, files and phases are anybody's text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from html import escape
from typing import Any, TypeVar

T = TypeVar("T")
SHOWN = 100  # rows


def table(headers: Iterable[str], rows: Iterable[Iterable[object]], caption: str = "") -> str:
    """An HTML table; cells are text, not markup."""
    head = "".join(f"<th>{escape(header)}</th>" for header in headers)
    lines = ("".join(f"<td>{escape(str(cell))}</td>" for cell in row) for row in rows)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


class Rows(tuple[T, ...]):
    """A tuple that a notebook shows as a table."""

    columns: Mapping[str, Callable[[T], object]]

    def __new__(
        cls, rows: Iterable[T] = (), columns: Mapping[str, Callable[[Any], object]] | None = None
    ) -> Rows[T]:
        made = super().__new__(cls, rows)
        made.columns = columns or {}
        return made

    def _repr_html_(self) -> str:
        rows = [[show(row) for show in self.columns.values()] for row in self[:SHOWN]]
        more = f"and {len(self) - SHOWN:,} more" if len(self) > SHOWN else ""
        return table(self.columns, rows, more)
