"""Regions of the probe."""

from __future__ import annotations

from collections.abc import Iterator

from ttmem.doctor.finding import CLEAN, Finding, Level
from ttmem.sizes import human
from ttmem.sources.host import HostFacts, ProbeFacts

# What a dead process left is wanted for a while: to see why it died.
KEPT_S = 3600.0


def is_left_over(probe: ProbeFacts) -> bool:
    """Of a dead process, and nobody has come for it in an hour."""
    return not probe.alive and probe.problem is None and probe.idle_s > KEPT_S


def probe_findings(facts: HostFacts) -> Iterator[Finding]:
    for probe in facts.probes:
        if probe.problem is not None:
            yield Finding(
                "bad_probe_region",
                Level.WARNING,
                f"{probe.problem}; skipped",
                advice="a newer ttmem may know it",
                pid=probe.pid,
                path=probe.path,
            )
            continue
        if is_left_over(probe):
            yield Finding(
                "dead_probe_region",
                Level.INFO,
                f"process {probe.pid} died over an hour ago; its probe region still takes "
                f"{human(probe.size)}",
                CLEAN,
                pid=probe.pid,
                bytes=probe.size,
                path=probe.path,
            )
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
