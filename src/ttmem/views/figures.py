"""Kinds of memory, and their amounts as text and bars: the same in every view."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from functools import lru_cache
from typing import NamedTuple

from ttmem.sizes import human
from ttmem.views.ink import Line, Span, Style, faint, ink
from ttmem.views.meter import PERCENT, is_over, level, meter, percentage

AMOUNT = len("896.0 KiB")  # wide enough for any amount but '1000.0 MiB', which is rare


class Units(Enum):
    BINARY = "KiB/MiB/GiB"
    MEBIBYTES = "MiB"
    BYTES = "bytes"

    def text(self, count: int | None) -> str:
        if count is None or self is Units.BINARY:
            return human(count)
        if self is Units.BYTES:
            return f"{count:,} B"
        digits = 1 if count >= 10 << 20 or not count else 3  # a kernel ring has 0.067 MiB
        return f"{count / (1 << 20):,.{digits}f} MiB"


def fact(label: str, value: str | None, style: Style = Style.PLAIN) -> Line:
    """'CB 29.8 MiB'; unknown is N/A."""
    return (*faint(f"{label} "), *(faint("N/A") if value is None else ink(value, style)))


class Kind(NamedTuple):
    """A kind of memory, or a sum of kinds."""

    title: str
    series: str  # its column in the history
    style: Style
    sign: str
    ascii_sign: str

    def bar_sign(self, ascii: bool) -> str:
        """What its part of a bar is made of."""
        return self.ascii_sign if ascii else self.sign


DRAM = Kind("DRAM", "dram", Style.DRAM, "█", "#")
TRACE = Kind("TRACE", "trace", Style.TRACE, "█", "#")
L1 = Kind("L1", "l1", Style.L1, "█", "#")
L1_SMALL = Kind("L1_SMALL", "l1_small", Style.L1_SMALL, "▓", "=")
CB = Kind("CB", "cb", Style.CB, "▒", "+")
L1_USED = Kind("L1 used", "l1_used", Style.L1, "█", "#")


Pair = tuple[int | None, int | None]  # used, capacity


def known(text: str | None) -> Line:
    """The text, or a faint N/A."""
    return ink(text) if text else faint("N/A")


def counted(number: int | None) -> Line:
    """'1,204', or a faint N/A."""
    return known(None if number is None else f"{number:,}")


def amount(units: Units, count: int | None, style: Style = Style.PLAIN) -> Line:
    """'4.5 GiB', or a faint N/A."""
    return faint("N/A") if count is None else ink(units.text(count), style)


def of_limit(units: Units, used: int | None, limit: int | None) -> Line:
    """'2.0 MiB / 4.3 MiB'; one N/A if neither is known."""
    return faint("N/A") if used is None and limit is None else Pairs(units).line(used, limit)


class Pairs(NamedTuple):
    """The widths of 'used / capacity', so that figures are aligned."""

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
        return self.used + len(" / ") + self.limit

    def line(self, used: int | None, limit: int | None) -> Line:
        """'  4.5 GiB / 12.0 GiB'; red above the capacity."""
        return _pair(self.units, used, self.used, limit, self.limit)


@lru_cache(1 << 10)
def _pair(
    units: Units, used: int | None, used_width: int, limit: int | None, limit_width: int
) -> Line:
    over = used is not None and is_over(used, limit)
    style = Style.FAINT if used is None else Style.ALARM if over else Style.PLAIN
    value = ink(units.text(used).rjust(used_width), style)
    return (*value, *faint(f" / {units.text(limit).ljust(limit_width)}"))


Part = tuple[int, str, Style]  # amount, sign, colour
REST, ASCII_REST = "·", "."
SLIVERS, ASCII_SLIVER = "▏▎▍▌▋▊▉", "|"  # for less than a cell


@lru_cache(1 << 10)  # at ten refreshes a second, most bars do not change
def stacked_meter(parts: tuple[Part, ...], capacity: int | None, space: int, ascii: bool) -> Line:
    """The parts from left to right, free space and percentage in exactly `space` columns, as `meter` for one amount."""
    used = sum(amount for amount, _, _ in parts)
    length = space - PERCENT - 1
    if capacity is None or is_over(used, capacity) or length < 1:
        return meter(used, capacity, space)
    number = ink(percentage(used, capacity).rjust(PERCENT), level(used, capacity))
    cells = shares([amount for amount, _, _ in parts], capacity, length)
    filled = [
        Span(_sliver(amount, capacity, length, ascii) or sign * count, style)
        for count, (amount, sign, style) in zip(cells, parts, strict=True)
        if count
    ]
    rest = (ASCII_REST if ascii else REST) * (length - sum(cells))
    return (*filled, Span(rest, Style.FAINT), Span(" "), *number)


def _sliver(amount: int, capacity: int, length: int, ascii: bool) -> str:
    """The sign of a part that is smaller than a cell, by eighths; nothing for a larger one."""
    eighths = 8 * amount * length // capacity
    if eighths >= 8:
        return ""
    return ASCII_SLIVER if ascii else SLIVERS[max(eighths, 1) - 1]


def shares(amounts: Sequence[int], capacity: int, length: int) -> list[int]:
    """Cells of each amount, `length` together at most.

    Any amount above 0 is visible: it takes its cell from the widest part, if nothing is free.
    """
    cells = []
    end = total = 0
    for amount in amounts:
        total += amount
        stop = min(length * total // capacity, length) if capacity else 0
        cells.append(max(stop - end, 1 if amount else 0))
        end = max(stop, end)
    while sum(cells) > length:
        cells[cells.index(max(cells))] -= 1
    return cells
