"""A finding: what is wrong, how serious it is, and what to do about it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

from ttmem.events import COUNTERS_CLOSED, Remark

CLEAN = "ttmem clean --yes"


class Level(IntEnum):
    """INFO: every figure is right. WARNING: some figure is missing or misleading. ERROR: something fails."""

    INFO = 0
    WARNING = 1
    ERROR = 2

    @property
    def word(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Finding:
    """`kind` identifies it for programs. `command` fixes it; `advice` says more, or what to do if no command can."""

    kind: str
    level: Level
    text: str
    command: str | None = None
    advice: str | None = None
    pid: int | None = None
    bytes: int | None = None
    path: str | None = None


def worst(findings: Iterable[Finding]) -> Level | None:
    return max((finding.level for finding in findings), default=None)


@dataclass(frozen=True, slots=True)
class _Remedy:
    """`{path}` and `{pid}` are replaced by those of the remark."""

    level: Level
    command: str | None = None
    advice: str | None = None


_RESTART = "then start the process again"
_NOT_NEEDED = "none needed: ttmem counts live processes; other tools may be misled"
_REMEDIES = {
    "ghost": _Remedy(Level.WARNING, CLEAN),
    "reused_pid": _Remedy(Level.WARNING, CLEAN),
    "replaced_program": _Remedy(Level.WARNING, CLEAN),
    "elsewhere": _Remedy(Level.INFO, advice="run ttmem on the host to see which process it is"),
    "unverified": _Remedy(
        Level.WARNING,
        advice="to have process {pid} counted, end all processes that use the region, remove it, and start"
        " that process first",
    ),
    "root_in_region": _Remedy(Level.INFO, advice="none needed: root may write to any region"),
    "totals_disagree": _Remedy(Level.INFO, advice=_NOT_NEEDED),
    "chips_disagree": _Remedy(Level.INFO, advice=_NOT_NEEDED),
    "table_full": _Remedy(Level.WARNING, advice="end processes that no longer need the device"),
    "impossible": _Remedy(
        Level.WARNING,
        advice="restart process {pid} if it is alive; `ttmem clean` clears dead processes",
    ),
    "twice": _Remedy(Level.INFO),
    "tracking_disabled": _Remedy(Level.WARNING, "unset TT_METAL_SHM_TRACKING_DISABLED", _RESTART),
    "publishes_nothing": _Remedy(
        Level.INFO, advice="if it holds memory, start it as the user who owns the region"
    ),
    "replaced_region": _Remedy(Level.WARNING, advice="restart process {pid}"),
    "other_user": _Remedy(Level.WARNING, "sudo chmod a+r {path}", "or run ttmem as root"),
    "unknown_layout": _Remedy(
        Level.WARNING, advice="a newer ttmem may know it; it is left alone: `ls -l {path}`"
    ),
    "not_a_region": _Remedy(Level.WARNING, "rm -i {path}", "if nobody needs it"),
    "unreadable": _Remedy(Level.WARNING, "ls -ld {path}"),
    "initialising": _Remedy(
        Level.INFO, advice="if it stays like this, its process is gone: rm -i {path}"
    ),
    "too_many": _Remedy(Level.WARNING, CLEAN),
    "more": _Remedy(Level.WARNING),
}
_UNKNOWN = _Remedy(Level.INFO)
_ALL_OF_A_USER = _Remedy(Level.WARNING)  # the text itself says what to do


def remark_finding(remark: Remark, prefix: str = "") -> Finding:
    """A reader's remark with a level and a remedy. `prefix` names the device if the remark does not."""
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
