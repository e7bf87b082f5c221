"""A finding: what is wrong, how serious it is, and what to do about it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import IntEnum
from typing import Any, NamedTuple

from ttmem.events import COUNTERS_CLOSED, PROBE_CLOSED, Remark
from ttmem.sources.host import HostFacts, RegionFacts
from ttmem.sources.shm import HELP

CLEAN = "ttmem clean --yes"


class Level(IntEnum):
    """INFO: all figures are right. WARNING: a figure is missing or misleading. ERROR: something fails."""

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


class _Remedy(NamedTuple):
    """`{path}`, `{pid}` and `{user}` are replaced by those of the finding."""

    level: Level
    command: str | None = None
    advice: str | None = None


_RUN = "docker run --ipc=host --pid=host --device /dev/tenstorrent ..."
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
    "not_a_region": _Remedy(Level.WARNING, "rm -i {path}", "if it is not needed"),
    "unreadable": _Remedy(Level.WARNING, "ls -ld {path}"),
    "initialising": _Remedy(
        Level.INFO, advice="if it stays like this, its process is gone: rm -i {path}"
    ),
    "too_many": _Remedy(Level.WARNING, CLEAN),
    "more": _Remedy(Level.WARNING),
    "no_device_file": _Remedy(Level.WARNING, "docker run --device /dev/tenstorrent ..."),
    "closed_card": _Remedy(Level.WARNING, "sudo chmod a+rw {path}"),
    "own_pid_namespace": _Remedy(Level.INFO, _RUN),
    "private_shm": _Remedy(Level.INFO, _RUN),
    "hidepid": _Remedy(
        Level.WARNING, "sudo mount -o remount,hidepid=0 /proc", "or run ttmem as root"
    ),
    "tracking_disabled_here": _Remedy(Level.WARNING, "unset TT_METAL_SHM_TRACKING_DISABLED"),
    "region_elsewhere": _Remedy(
        Level.WARNING,
        advice="what its processes hold is not counted here; share it with docker run --ipc=host ...",
    ),
    "stale_socket": _Remedy(
        Level.WARNING, "ttmem clean --socket {path} --yes", "`ttmem serve` removes it as well"
    ),
    "not_a_socket": _Remedy(Level.WARNING, "rm -i {path}", "if it is not needed"),
    "closed_socket": _Remedy(Level.WARNING, "ttmem serve --group NAME", "to be run by {user}"),
    "unknown_socket": _Remedy(Level.WARNING, "ls -l {path}"),
    "open_to_all": _Remedy(Level.INFO, "chmod go-w {path}"),
    PROBE_CLOSED: _Remedy(Level.WARNING, advice=HELP),
    "foreign_probe_region": _Remedy(
        Level.WARNING, "rm -i {path}", "or ask user {user}, who created it"
    ),
    "bad_probe_region": _Remedy(
        Level.WARNING, advice="a newer ttmem may know it; it is left alone: `ls -l {path}`"
    ),
    "missing_features": _Remedy(Level.WARNING, advice="a newer ttmem may know this runtime"),
    "dead_probe_region": _Remedy(Level.INFO, CLEAN),
}


def found(
    kind: str,
    text: str,
    level: Level | None = None,
    *,
    pid: int | None = None,
    bytes: int | None = None,
    path: str | None = None,
    user: str | None = None,
) -> Finding:
    """With the remedy for that kind, and its level unless another one is given."""
    usual, command, advice = _REMEDIES.get(kind, _Remedy(Level.INFO))
    words = {"path": shlex.quote(path or "?"), "pid": pid, "user": user}
    return Finding(
        kind,
        usual if level is None else level,
        text,
        command and command.format(**words),
        advice and advice.format(**words),
        pid,
        bytes,
        path,
    )


def remark_finding(remark: Remark, prefix: str = "") -> Finding:
    """A reader's remark with a level and a remedy. `prefix` names the device if the remark does not."""
    text = prefix + remark.text
    if remark.kind == COUNTERS_CLOSED and remark.path is None:  # the text itself says what to do
        return Finding(remark.kind, Level.WARNING, text, pid=remark.pid, bytes=remark.bytes)
    return found(remark.kind, text, pid=remark.pid, bytes=remark.bytes, path=remark.path)


SCHEMA = "ttmem.doctor/1"


def document(facts: HostFacts, findings: tuple[Finding, ...]) -> dict[str, Any]:
    """Unknown values are null."""
    level = worst(findings)
    return {
        "schema": SCHEMA,
        "time_ns": facts.time_ns,
        "worst": None if level is None else level.word,
        "findings": [asdict(each) | {"level": each.level.word} for each in findings],
        "driver": facts.driver,
        "cards": [asdict(each) for each in facts.cards],
        "runtimes": [asdict(each) for each in facts.runtimes],
        "shared_memory": asdict(facts.folder),
        "regions": [_region(each) for each in facts.regions],
        "sockets": [asdict(each) | {"state": each.state.value} for each in facts.sockets],
        "probe_regions": [
            asdict(each) | {"features": dict(each.features)} for each in facts.probes
        ],
        "containers": [asdict(each) for each in facts.containers],
        "surroundings": asdict(facts.surroundings),
    }


def _region(region: RegionFacts) -> dict[str, Any]:
    sample = region.sample
    return {
        "path": sample.path,
        "unique_id": sample.unique_id,
        "version": sample.version,
        "kernel_counters": sample.counts_kernels,
        "size": region.size,
        "mode": f"{region.mode:04o}",
        "user": region.user,
        "references": sample.references,
        "mapped_by": region.mapped_by,
        "processes": [
            {
                "pid": process.pid,
                "name": process.name,
                "owner": process.owner.value,
                "bytes": process.counters.all,
            }
            for process in sample.processes
        ],
    }
