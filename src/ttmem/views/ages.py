"""Spans of time for people."""

from __future__ import annotations


def age(nanoseconds: int) -> str:
    """'12 s', '4 min', '3 h', '2 d'."""
    seconds = max(nanoseconds, 0) // 1_000_000_000
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"
