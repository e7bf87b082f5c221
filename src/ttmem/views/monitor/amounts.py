"""Amounts in the units that the user chose, in columns that stay where they are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from ttmem.views.device_facts import AMOUNT
from ttmem.views.ink import Line, Style, faint, ink
from ttmem.views.meter import is_over
from ttmem.views.monitor.state import Units

Pair = tuple[int | None, int | None]  # used, capacity


def amount(units: Units, count: int | None, style: Style = Style.PLAIN) -> Line:
    """'4.5 GiB', or a faint N/A."""
    return faint("N/A") if count is None else ink(units.text(count), style)


def amount_room(units: Units, counts: Iterable[int | None]) -> int:
    """Columns in which each of these amounts fits, and what it may become: text shall not jump."""
    if units is Units.BINARY:
        return AMOUNT
    return max((len(units.text(count)) for count in counts), default=0)


def of_limit(units: Units, used: int | None, limit: int | None) -> Line:
    """'2.0 MiB / 4.3 MiB'; one N/A if neither is known."""
    return faint("N/A") if used is None and limit is None else Pairs(units).line(used, limit)


@dataclass(frozen=True, slots=True)
class Pairs:
    """How wide 'used / capacity' is, so that figures stand under figures."""

    units: Units
    used: int = 0
    limit: int = 0

    @classmethod
    def of(cls, units: Units, pairs: Iterable[Pair]) -> Pairs:
        """Wide enough for all of them, and for any amount in binary units."""
        pairs = list(pairs)
        used = max((len(units.text(used)) for used, _ in pairs), default=0)
        limit = max((len(units.text(limit)) for _, limit in pairs), default=0)
        return cls(units, max(used, AMOUNT) if units is Units.BINARY else used, limit)

    @property
    def width(self) -> int:
        """Columns of one pair."""
        return self.used + len(" / ") + self.limit

    def line(self, used: int | None, limit: int | None) -> Line:
        """'  4.5 GiB / 12.0 GiB'; red if it is more than there is."""
        return _pair(self.units, used, self.used, limit, self.limit)


@lru_cache(1 << 10)
def _pair(
    units: Units, used: int | None, used_room: int, limit: int | None, limit_room: int
) -> Line:
    over = used is not None and is_over(used, limit)
    style = Style.FAINT if used is None else Style.ALARM if over else Style.PLAIN
    value = ink(units.text(used).rjust(used_room), style)
    return (*value, *faint(f" / {units.text(limit).ljust(limit_room)}"))
