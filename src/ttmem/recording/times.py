"""Durations and times of day, as users write them for an instant of a recording."""

from __future__ import annotations

import re
from datetime import datetime, time, timedelta
from decimal import Decimal

from ttmem.errors import BadInput

SECOND_NS = 1_000_000_000
PEAKS = ("dram", "l1", "l1_small", "trace", "l1_used")
HELP = (
    "12.5s or 2m30s after the start, start, end, peak:l1, peak:dram, oom, oom:2, oom:last, #POSITION,"
    " or a time such as 14:05:30"
)
_UNITS = {"ms": 10**6, "s": SECOND_NS, "m": 60 * SECOND_NS, "h": 3600 * SECOND_NS}
_PART = r"\d+(?:\.\d+)?(?:ms|s|m|h)"
_LONGEST = 100 * 365 * 86_400 * SECOND_NS


def parse_duration(text: str) -> int:
    """'90', '12.5s', '1h2m' -> ns."""
    if re.fullmatch(r"\d+(?:\.\d+)?", text):
        text += "s"
    if not re.fullmatch(f"(?:{_PART})+", text):
        raise BadInput(f"{text!r:.60} is not a duration; write 12.5s, 2m30s or 1h")
    parts = re.findall(r"([\d.]+)(ms|s|m|h)", text)
    total = sum(int(Decimal(number) * _UNITS[unit]) for number, unit in parts)
    if total > _LONGEST:
        raise BadInput(f"{text!r:.60} is longer than any recording")
    return total


def parse_clock(text: str, started_ns: int, ended_ns: int) -> int:
    """The span of the recording gives the date for a time of day. BadInput lists all forms of instants."""
    try:
        return _clock(text, started_ns, ended_ns)
    except (ValueError, OverflowError, OSError):
        raise BadInput(f"{text!r:.60} is not an instant of a recording; write {HELP}") from None


def _clock(text: str, started_ns: int, ended_ns: int) -> int:
    """Local time, unless it names its zone. A time of day is the first in the recording, or else of its first day."""
    if not re.fullmatch(r"\d{1,2}:\d\d(:\d\d(\.\d+)?)?", text):
        return _ns(datetime.fromisoformat(text))
    day = datetime.fromtimestamp(started_ns / SECOND_NS).date()
    hour = time.fromisoformat(text if text[2] == ":" else f"0{text}")
    first, second = (_ns(datetime.combine(day + timedelta(days=n), hour)) for n in (0, 1))
    return second if first < started_ns and second <= ended_ns else first


def _ns(moment: datetime) -> int:
    moment = moment.astimezone()
    return int(moment.timestamp()) * SECOND_NS + moment.microsecond * 1000


def clock_text(time_ns: int) -> str:
    """'2026-11-18 14:05:30.250', local time."""
    moment = datetime.fromtimestamp(time_ns // 10**6 / 1000)
    return moment.isoformat(" ", "milliseconds")
