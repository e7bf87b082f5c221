"""One line for each thing measured."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """A figure, its limit, and whether more or less is better."""

    what: str
    value: float
    unit: str
    limit: float
    at_least: bool = False
    note: str = ""

    @property
    def ratio(self) -> float:
        """How many times better than the limit; 1 is just enough."""
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
        limit = f"{sign} {_number(row.limit)} {row.unit}"
        lines.append(
            f"{row.what:<64} {measured:>14} {limit:>16} {row.ratio:>8.2f}  {mark}  {row.note}".rstrip()
        )
    return "\n".join(lines)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
