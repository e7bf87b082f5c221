"""Failed allocations of live processes, one note each, under the tables of `ttmem ps`."""

from __future__ import annotations

from collections.abc import Iterable

from ttmem.analysis.last_failures import LastFailure
from ttmem.sizes import human
from ttmem.views.ages import age
from ttmem.views.failure_text import headline, verdict
from ttmem.views.ink import Style
from ttmem.views.note import Note
from ttmem.views.origins import made_by

ROOM = 100  # of op and line


def failure_notes(failures: Iterable[LastFailure], now_ns: int) -> list[Note]:
    """'pid 4711: no room for a buffer in L1 of device 0, 12 s ago: 4.0 MiB, asked by ...; exhausted: ...'."""
    return [Note("!", Style.ALARM, _sentence(one, now_ns)) for one in failures]


def _sentence(last: LastFailure, now_ns: int) -> str:
    why = last.explanation
    when = f"{age(now_ns - last.time_ns)} ago"
    if last.count > 1:
        when += f", the last of {last.count:,} failures"
    by_core = why.failure.what != "buffer"
    size = f"{human(why.needed)} on each core" if by_core else human(why.asked)
    who = made_by(why.failure.origin, ROOM)
    return f"pid {last.pid}: {headline(why)}, {when}: {size}, asked by {who}; {verdict(why)}"
