"""How people name an instant of a recording: `12.5s`, `peak:l1`, `oom`, `end`, ..."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

from ttmem.errors import BadInput

SECOND_NS = 1_000_000_000
PEAKS = ("dram", "l1", "l1_small", "trace", "l1_used")
HELP = "12.5s or 2m30s after the start, start, end, peak:l1, peak:dram, oom, #POSITION, or a time such as 14:05:30"
_UNITS = {"ms": 10**6, "s": SECOND_NS, "m": 60 * SECOND_NS, "h": 3600 * SECOND_NS}
_PART = r"\d+(?:\.\d+)?(?:ms|s|m|h)"
_LONGEST = 100 * 365 * 86_400 * SECOND_NS


@dataclass(frozen=True, slots=True)
class When:
    """Exactly one of the fields is set, but for `pid`."""

    since_start_ns: int | None = None
    time_ns: int | None = None
    position: int | None = None
    pid: int | None = None  # with a position: so many events of this process
    failure: int | None = None  # the first is 1
    peak: str | None = None  # of PEAKS
    end: bool = False


def parse_duration(text: str) -> int:
    """'90', '12.5s', '1h2m' -> ns."""
    if re.fullmatch(r"\d+(?:\.\d+)?", text):
        text += "s"
    if not re.fullmatch(f"(?:{_PART})+", text):
        raise BadInput(f"{text!r:.60} is not a duration; write 12.5s, 2m30s or 1h")
    parts = re.findall(r"([\d.]+)(ms|s|m|h)", text)
    total = sum(int(float(number) * _UNITS[unit]) for number, unit in parts)
    if total > _LONGEST:
        raise BadInput(f"{text!r:.60} is longer than any recording")
    return total


def parse_when(text: str | float, started_ns: int) -> When:
    """`started_ns` gives the day to a time of day. BadInput lists what can be written."""
    if not isinstance(text, str):
        text = repr(float(text))
    word, _, rest = text.partition(":")
    if text in ("end", "start"):
        return When(end=True) if text == "end" else When(since_start_ns=0)
    if word == "oom" and re.fullmatch(r"|[1-9]\d{0,8}", rest):
        return When(failure=int(rest or 1))
    if word == "peak" and rest in PEAKS:
        return When(peak=rest)
    if re.fullmatch(r"#\d{1,18}", text):
        return When(position=int(text[1:]))
    if found := re.fullmatch(r"(\d{1,10})#(\d{1,18})", text):
        return When(pid=int(found[1]), position=int(found[2]))
    try:
        return When(since_start_ns=parse_duration(text))
    except BadInput:
        pass
    try:
        return When(time_ns=_clock(text, started_ns))
    except (ValueError, OverflowError, OSError):
        raise BadInput(f"{text!r:.60} is not an instant of a recording; write {HELP}") from None


def _clock(text: str, started_ns: int) -> int:
    """Local time, unless it names its zone."""
    if re.fullmatch(r"\d{1,2}:\d\d(:\d\d(\.\d+)?)?", text):
        day = datetime.fromtimestamp(started_ns / SECOND_NS).date().isoformat()
        text = f"{day}T{text.zfill(5) if len(text) < 5 else text}"
    moment = datetime.fromisoformat(text).astimezone()
    return int(moment.timestamp()) * SECOND_NS + moment.microsecond * 1000
