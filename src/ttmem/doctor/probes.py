"""Regions of the probe."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from ttmem.clean import Plan
from ttmem.doctor.finding import CLEAN, Finding, Level
from ttmem.sizes import human
from ttmem.sources.closed_files import HELP, PROBE_CLOSED, sentence
from ttmem.sources.host import HostFacts, ProbeFacts


def cleanable(facts: HostFacts, plan: Plan | None) -> list[ProbeFacts]:
    """Regions of dead processes that `ttmem clean` would remove."""
    left = [probe for probe in facts.probes if probe.left_over]
    return left if plan is None else [probe for probe in left if plan.does(probe.path)]


def closed_by_user(facts: HostFacts) -> dict[str, list[ProbeFacts]]:
    """Regions that only their user may read."""
    found: dict[str, list[ProbeFacts]] = {}
    for probe in facts.probes:
        if probe.closed:
            found.setdefault(probe.user or "unknown", []).append(probe)
    return found


def probe_findings(facts: HostFacts, plan: Plan | None) -> Iterator[Finding]:
    left = cleanable(facts, plan)
    if left:
        yield _left_over(left)
    for probe in facts.probes:
        if probe.left_over and probe not in left:
            yield _left_over([probe])
    for user, closed in closed_by_user(facts).items():
        yield _closed(user, closed)
    for probe in facts.probes:
        if probe.closed:
            continue
        if probe.foreign:
            yield Finding(
                "foreign_probe_region",
                Level.WARNING,
                f"{probe.problem}",
                f"rm -i {shlex.quote(probe.path)}",
                f"or ask user {probe.user}, who made it",
                pid=probe.pid,
                path=probe.path,
            )
            continue
        if probe.problem is not None:
            yield Finding(
                "bad_probe_region",
                Level.WARNING,
                f"{probe.problem}; skipped",
                advice=f"a newer ttmem may know it; it is left alone: `ls -l {shlex.quote(probe.path)}`",
                pid=probe.pid,
                path=probe.path,
            )
            continue
        missing = [name for name, there in probe.features if not there]
        if missing:
            yield Finding(
                "missing_features",
                Level.WARNING if probe.alive else Level.INFO,
                f"the probe in process {probe.pid} cannot see: {', '.join(missing)}; this runtime "
                "lacks what it hooks there",
                advice="a newer ttmem may know this runtime",
                pid=probe.pid,
                path=probe.path,
            )


def _closed(user: str, probes: list[ProbeFacts]) -> Finding:
    one = probes[0] if len(probes) == 1 else None
    return Finding(
        PROBE_CLOSED,
        Level.WARNING,
        sentence(len(probes), PROBE_CLOSED, user),
        advice=HELP,
        pid=one.pid if one else None,
        path=one.path if one else None,
    )


def _left_over(probes: list[ProbeFacts]) -> Finding:
    size = sum(probe.size for probe in probes)
    one = probes[0] if len(probes) == 1 else None
    text = (
        f"process {one.pid} has died; its probe region takes {human(size)} and is kept for `ttmem dump`"
        if one
        else f"{len(probes):,} processes under the probe have died; their regions take {human(size)} "
        "and are kept for `ttmem dump`"
    )
    return Finding(
        "dead_probe_region",
        Level.INFO,
        text,
        CLEAN,
        pid=one.pid if one else None,
        bytes=size,
        path=one.path if one else None,
    )
