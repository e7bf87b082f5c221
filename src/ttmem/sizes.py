"""Sizes for people (binary units), and back."""

from __future__ import annotations

import re
from functools import lru_cache

from ttmem.errors import BadInput

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_FACTORS = {"": 1, "B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


@lru_cache(1 << 12)
def human(count: int | None) -> str:
    """1536 -> '1.5 KiB'; None -> 'N/A'. Never rounds up to the next unit's thousand."""
    if count is None:
        return "N/A"
    value = float(count)
    for unit in _UNITS:
        if abs(value) < 1023.95 or unit == _UNITS[-1]:
            break
        value /= 1024
    return f"{count} B" if unit == "B" else f"{value:.1f} {unit}"


def several(count: int, noun: str, plural: str | None = None) -> str:
    """'1 bank', '1,204 banks'."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def parse_size(text: str) -> int:
    """'171.6MiB', '64K', '1073741824' -> bytes; K, M, G are binary."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?\s*", text, re.IGNORECASE)
    if not match:
        raise BadInput(f"{text!r} is not a size; write bytes, or a number with KiB, MiB or GiB")
    number, unit = match.groups()
    return (
        int(float(number) * _FACTORS[unit.upper()])
        if "." in number
        else int(number) * _FACTORS[unit.upper()]
    )
