"""From facts to findings: nothing is read here, so that any host can be thought up in a test."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from dataclasses import replace

from ttmem.clean import Plan
from ttmem.doctor.cards import card_findings
from ttmem.doctor.finding import CLEAN, Finding
from ttmem.doctor.folder import folder_findings
from ttmem.doctor.limits import limit_findings
from ttmem.doctor.probes import probe_findings
from ttmem.doctor.regions import region_findings
from ttmem.doctor.remarks import remark_finding
from ttmem.doctor.sockets import socket_findings
from ttmem.sources.host import HostFacts
from ttmem.sources.shared_memory.folder import DEFAULT_FOLDER


def examine(facts: HostFacts, plan: Plan | None = None) -> tuple[Finding, ...]:
    """Worst first; within a level in the order of the sections.

    `plan`: what `ttmem clean` would do. No finding names it as its remedy where it would refuse.
    """
    folder = facts.folder.path
    findings = (_possible(_named(one, folder), plan, folder) for one in _all(facts, plan))
    return tuple(sorted(findings, key=lambda finding: -finding.level))


def _possible(finding: Finding, plan: Plan | None, folder: str) -> Finding:
    """Of one file: the folder as a whole can always be cleaned of something."""
    path = finding.path
    cleans = finding.command is not None and finding.command.startswith("ttmem clean ")
    if plan is None or not cleans or path is None or path == folder or plan.does(path):
        return finding
    left = plan.refuses(path)
    if left is None:
        return replace(finding, command=None)
    reason = left.reason.removeprefix(f"{os.path.basename(path)}: ")
    command = None if left.by_force else left.command
    return replace(finding, command=command, advice=f"`ttmem clean` leaves it alone: {reason}")


def _named(finding: Finding, folder: str) -> Finding:
    """Regions elsewhere than at the usual place are cleaned only where they are named."""
    if finding.command != CLEAN or folder == DEFAULT_FOLDER:
        return finding
    return replace(finding, command=f"ttmem clean --shm {shlex.quote(folder)} --yes")


def _all(facts: HostFacts, plan: Plan | None) -> Iterator[Finding]:
    yield from card_findings(facts)
    yield from folder_findings(facts, plan)
    yield from limit_findings(facts)
    yield from region_findings(facts)
    for remark in facts.remarks:
        yield remark_finding(remark)
    yield from socket_findings(facts.sockets)
    yield from probe_findings(facts, plan)
