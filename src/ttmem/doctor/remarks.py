"""What readers remarked, with a level and a remedy."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from ttmem.doctor.finding import CLEAN, Finding, Level
from ttmem.events import Remark
from ttmem.sources.closed_files import COUNTERS_CLOSED


@dataclass(frozen=True, slots=True)
class _Remedy:
    """`{path}` and `{pid}` stand for those of the remark."""

    level: Level
    command: str | None = None
    advice: str | None = None


_RESTART = "then start the process again"
_REMEDIES = {
    "ghost": _Remedy(Level.WARNING, CLEAN),
    "reused_pid": _Remedy(Level.WARNING, CLEAN),
    "replaced_program": _Remedy(Level.WARNING, CLEAN),
    "elsewhere": _Remedy(Level.INFO, advice="run ttmem on the host to see which process it is"),
    "unverified": _Remedy(
        Level.WARNING,
        advice="if process {pid} is to count: end all who use the region, remove it, and start that one first",
    ),
    "root_in_region": _Remedy(Level.INFO, advice="none needed: root may write to any region"),
    "totals_disagree": _Remedy(
        Level.INFO, advice="none needed: ttmem counts live processes; other tools may be misled"
    ),
    "chips_disagree": _Remedy(
        Level.INFO, advice="none needed: ttmem counts live processes; other tools may be misled"
    ),
    "table_full": _Remedy(Level.WARNING, advice="end processes that need the device no longer"),
    "impossible": _Remedy(
        Level.WARNING, advice="restart process {pid}, if it lives; `ttmem clean` clears dead ones"
    ),
    "twice": _Remedy(Level.INFO),
    "tracking_disabled": _Remedy(Level.WARNING, "unset TT_METAL_SHM_TRACKING_DISABLED", _RESTART),
    "publishes_nothing": _Remedy(
        Level.INFO, advice="if it holds memory: start it as the user who owns the region"
    ),
    "replaced_region": _Remedy(Level.WARNING, advice="restart process {pid}"),
    "other_user": _Remedy(Level.WARNING, "sudo chmod a+r {path}", "or run ttmem as root"),
    "unknown_layout": _Remedy(
        Level.WARNING, advice="a newer ttmem may know it; it is left alone: `ls -l {path}`"
    ),
    "not_a_region": _Remedy(Level.WARNING, "rm -i {path}", "if you know that nobody needs it"),
    "unreadable": _Remedy(Level.WARNING, "ls -ld {path}"),
    "initialising": _Remedy(
        Level.INFO, advice="if it stays so, no process is there to finish it: rm -i {path}"
    ),
    "too_many": _Remedy(Level.WARNING, CLEAN),
    "more": _Remedy(Level.WARNING),
}
_UNKNOWN = _Remedy(Level.INFO)
_ALL_OF_A_USER = _Remedy(Level.WARNING)  # its text says what to do


def remark_finding(remark: Remark, prefix: str = "") -> Finding:
    """`prefix` names the device, where the remark does not."""
    remedy = _REMEDIES.get(remark.kind, _UNKNOWN)
    if remark.kind == COUNTERS_CLOSED and remark.path is None:
        remedy = _ALL_OF_A_USER
    return Finding(
        remark.kind,
        remedy.level,
        prefix + remark.text,
        _filled(remedy.command, remark),
        _filled(remedy.advice, remark),
        remark.pid,
        remark.bytes,
        remark.path,
    )


def _filled(text: str | None, remark: Remark) -> str | None:
    if text is None:
        return None
    return text.format(path=shlex.quote(remark.path or "?"), pid=remark.pid)
