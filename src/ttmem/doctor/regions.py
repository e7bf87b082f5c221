"""Regions that could be read: their remarks, and who may write to them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace

from ttmem.doctor.finding import CLEAN, Finding, Level
from ttmem.doctor.remarks import remark_finding
from ttmem.sources.host import HostFacts, RegionFacts

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
        f"device {region.sample.unique_id}: others may write to its region "
        f"(mode {region.mode:04o}, of {region.user}), so its figures are as good as their word",
        f"chmod go-w {shlex.quote(path)}",
        path=path,
    )
