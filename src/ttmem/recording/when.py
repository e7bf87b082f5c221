"""How users name an instant of a recording: `12.5s`, `peak:l1`, `oom`, `end`, ..."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from decimal import Decimal

from ttmem.errors import BadInput

SECOND_NS = 1_000_000_000
PEAKS = ("dram", "l1", "l1_small", "trace", "l1_used")
HELP = (
    "12.5s or 2m30s after the start, start, end, peak:l1, peak:dram, oom, oom:2, oom:last, #POSITION,"
    " or a time such as 14:05:30"
)
LAST = -1
_UNITS = {"ms": 10**6, "s": SECOND_NS, "m": 60 * SECOND_NS, "h": 3600 * SECOND_NS}
_PART = r"\d+(?:\.\d+)?(?:ms|s|m|h)"
_LONGEST = 100 * 365 * 86_400 * SECOND_NS


@dataclass(frozen=True, slots=True)
class When:
    """Exactly one field is set, apart from `pid`."""

    since_start_ns: int | None = None
    time_ns: int | None = None
    clock_ns: int | None = None  # the same, as a person wrote it
    position: int | None = None
    pid: int | None = None  # with a position: after so many events of this process
    failure: int | None = None  # the first is 1, the last LAST
    peak: str | None = None  # of PEAKS
    end: bool = False


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


def parse_when(text: str | float, started_ns: int, ended_ns: int) -> When:
    """The span of the recording gives the date for a time of day. BadInput lists the accepted forms."""
    if not isinstance(text, str):
        text = repr(float(text))
    word, _, rest = text.partition(":")
    if text in ("end", "start"):
        return When(end=True) if text == "end" else When(since_start_ns=0)
    if text == "oom:last":
        return When(failure=LAST)
    if word == "oom" and re.fullmatch(r"|[1-9]\d{0,8}", rest):
        return When(failure=int(rest or 1))
    if word == "peak" and rest in PEAKS:
        return When(peak=rest)
    if re.fullmatch(r"#\d{1,18}", text):
        return When(position=int(text[1:]))
    if re.fullmatch(r"@\d{1,19}", text):
        return When(time_ns=int(text[1:]))
    if found := re.fullmatch(r"(\d{1,10})#(\d{1,18})", text):
        return When(pid=int(found[1]), position=int(found[2]))
    try:
        return When(since_start_ns=parse_duration(text))
    except BadInput:
        pass
    try:
        return When(clock_ns=_clock(text, started_ns, ended_ns))
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
