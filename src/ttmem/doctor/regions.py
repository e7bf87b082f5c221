"""Findings about regions in shared memory: those of the runtime, and those of the probe."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from ttmem.clean import Plan
from ttmem.doctor.finding import CLEAN, Finding, Level, remark_finding
from ttmem.events import PROBE_CLOSED
from ttmem.sizes import human
from ttmem.sources.host import HostFacts, ProbeFacts, RegionFacts
from ttmem.sources.shm import HELP, sentence

_LEFT = ("ghost", "reused_pid", "replaced_program")
_REAPED = "none needed: this runtime (layout 4) clears it when the next process opens the device"


def region_findings(facts: HostFacts) -> Iterator[Finding]:
    for region in facts.regions:
        for finding in _remarks(region):
            yield replace(finding, path=region.sample.path)
        if region.mode & 0o022:
            yield _open_to_all(region)


def _remarks(region: RegionFacts) -> Iterator[Finding]:
    sample = region.sample
    owners = {process.owner for process in sample.processes}
    live = bool(region.mapped_by) or any(owner.counts for owner in owners)
    dead = any(owner.left for owner in owners)
    for remark in sample.remarks:
        finding = remark_finding(remark, f"device {sample.unique_id}: ")
        if finding.kind in _LEFT and sample.version == 4 and live:
            yield replace(finding, level=Level.INFO, command=None, advice=_REAPED)
        elif finding.kind in _LEFT and not finding.bytes:
            yield replace(finding, level=Level.INFO)
        elif finding.kind == "table_full" and dead:
            yield replace(finding, command=CLEAN)
        else:
            yield finding


def _open_to_all(region: RegionFacts) -> Finding:
    path = region.sample.path
    return Finding(
        "open_to_all",
        Level.INFO,
        f"device {region.sample.unique_id}: other users can write to its region (mode {region.mode:04o}, "
        f"owner {region.user}), so its figures may be forged",
        f"chmod go-w {shlex.quote(path)}",
        path=path,
    )


def cleanable(facts: HostFacts, plan: Plan | None) -> list[ProbeFacts]:
    """Probe regions of dead processes that `ttmem clean` would remove."""
    left = [probe for probe in facts.probes if probe.left_over]
    return left if plan is None else [probe for probe in left if plan.does(probe.path)]


def closed_by_user(facts: HostFacts) -> dict[str, list[ProbeFacts]]:
    """Probe regions that only their owner may read, by owner."""
    found: dict[str, list[ProbeFacts]] = {}
    for probe in facts.probes:
        if probe.closed:
            found.setdefault(probe.user or "unknown", []).append(probe)
    return found


def closed_text(user: str, closed: Sequence[ProbeFacts]) -> str:
    return sentence(len(closed), PROBE_CLOSED, user)


def probe_findings(facts: HostFacts, plan: Plan | None) -> Iterator[Finding]:
    left = cleanable(facts, plan)
    if left:
        yield _left_over(left)
    for probe in facts.probes:
        if probe.left_over and probe not in left:
            yield _left_over([probe])
    for user, closed in closed_by_user(facts).items():
        text = closed_text(user, closed)
        yield Finding(PROBE_CLOSED, Level.WARNING, text, advice=HELP, **_only(closed))
    for probe in facts.probes:
        if not probe.closed:
            yield from _probe_findings(probe)


def _probe_findings(probe: ProbeFacts) -> Iterator[Finding]:
    missing = [name for name, there in probe.features if not there]
    if probe.foreign:
        yield Finding(
            "foreign_probe_region",
            Level.WARNING,
            f"{probe.problem}",
            f"rm -i {shlex.quote(probe.path)}",
            f"or ask user {probe.user}, who created it",
            pid=probe.pid,
            path=probe.path,
        )
    elif probe.problem is not None:
        yield Finding(
            "bad_probe_region",
            Level.WARNING,
            f"{probe.problem}; skipped",
            advice=f"a newer ttmem may know it; it is left alone: `ls -l {shlex.quote(probe.path)}`",
            pid=probe.pid,
            path=probe.path,
        )
    elif missing:
        yield Finding(
            "missing_features",
            Level.WARNING if probe.alive else Level.INFO,
            f"the probe in process {probe.pid} cannot observe {', '.join(missing)}: this runtime lacks the"
            " functions it hooks",
            advice="a newer ttmem may know this runtime",
            pid=probe.pid,
            path=probe.path,
        )


def _left_over(probes: list[ProbeFacts]) -> Finding:
    size = sum(probe.size for probe in probes)
    text = (
        f"process {probes[0].pid} has died; its probe region takes {human(size)} and is kept for `ttmem dump`"
        if len(probes) == 1
        else f"{len(probes):,} processes under the probe have died; their regions take {human(size)} "
        "and are kept for `ttmem dump`"
    )
    return Finding("dead_probe_region", Level.INFO, text, CLEAN, bytes=size, **_only(probes))


def _only(probes: list[ProbeFacts]) -> dict[str, Any]:
    """Pid and path, if the finding is about one region."""
    return {"pid": probes[0].pid, "path": probes[0].path} if len(probes) == 1 else {}
