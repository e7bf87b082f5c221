"""One line for each thing measured."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """A figure, its limit, and whether more or less is better."""

    what: str
    value: float
    unit: str
    limit: float | None  # None: it is shown, and may be anything
    at_least: bool = False
    note: str = ""

    @property
    def ratio(self) -> float:
        """How many times better than the limit; 1 is just enough."""
        if self.limit is None:
            return float("inf")
        if self.at_least:
            return self.value / self.limit
        return self.limit / self.value if self.value > 0 else float("inf")


def show(rows: Iterable[Row]) -> str:
    """The table as text."""
    lines = [f"{'what':<64} {'measured':>14} {'limit':>16} {'x better':>9}"]
    for row in rows:
        sign = ">=" if row.at_least else "<="
        mark = "ok" if row.ratio >= 1 else "MISSED"
        measured = f"{_number(row.value)} {row.unit}"
        judged = f"{'':>16} {'':>8}  no limit"
        if row.limit is not None:
            limit = f"{sign} {_number(row.limit)} {row.unit}"
            judged = f"{limit:>16} {row.ratio:>8.2f}  {mark}"
        lines.append(f"{row.what:<64} {measured:>14} {judged}  {row.note}".rstrip())
    return "\n".join(lines)


_LINE = r"(\S.*?) +([\d,.e+-]+) (\S*) +(<=|>=) ([\d,.e+-]+) .*"


def read_rows(text: str) -> list[Row]:
    """The rows with a limit of a table, also of one that another version of this program printed."""
    matches = (re.fullmatch(_LINE, line) for line in text.splitlines())
    return [
        Row(what, _value(value), unit, _value(limit), sign == ">=")
        for what, value, unit, sign, limit in (match.groups() for match in matches if match)
    ]


def _value(text: str) -> float:
    return float(text.replace(",", ""))


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
