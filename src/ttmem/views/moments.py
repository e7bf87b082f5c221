"""Instants for people, in their zone (None: the local one)."""

from __future__ import annotations

from datetime import datetime, tzinfo

MILLISECOND = 1_000_000
SECOND = 1_000_000_000


def moment(time_ns: int, zone: tzinfo | None = None) -> str:
    """'2026-08-22 14:03:11 UTC'."""
    when = _local(time_ns, zone)
    return "time unknown" if when is None else when.strftime("%Y-%m-%d %H:%M:%S %Z")


def time_of_day(time_ns: int, zone: tzinfo | None) -> str:
    """'14:03:11'."""
    when = _local(time_ns, zone)
    return "unknown" if when is None else when.strftime("%H:%M:%S")


def clock(time_ns: int, zone: tzinfo | None) -> str:
    """'14:03:11.250'."""
    when = _local(time_ns, zone)
    if when is None:
        return "unknown"
    return f"{when:%H:%M:%S}.{time_ns // MILLISECOND % 1000:03}"


def _local(time_ns: int, zone: tzinfo | None) -> datetime | None:
    """None for a time that no calendar has: clocks of other processes may say anything."""
    try:
        return datetime.fromtimestamp(time_ns // SECOND, zone).astimezone(zone)
    except (OverflowError, OSError, ValueError):
        return None
