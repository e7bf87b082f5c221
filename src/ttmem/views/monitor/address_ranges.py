"""Ranges of addresses: what they cover together."""

from __future__ import annotations

from collections.abc import Iterable

Range = tuple[int, int]  # from the first address to before the second


def union(ranges: Iterable[Range]) -> list[Range]:
    """In order, without overlaps; neighbours are joined."""
    out: list[Range] = []
    for start, end in sorted(ranges):
        if start >= end:
            continue
        if out and start <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], end))
        else:
            out.append((start, end))
    return out


def covered(ranges: Iterable[Range]) -> int:
    """Bytes that are in at least one of them."""
    return sum(end - start for start, end in union(ranges))
