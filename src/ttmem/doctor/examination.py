"""From facts to findings: nothing is read here, so that any host can be thought up in a test."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace

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


def examine(facts: HostFacts) -> tuple[Finding, ...]:
    """Worst first; within a level in the order of the sections."""
    findings = (_named(finding, facts.folder.path) for finding in _all(facts))
    return tuple(sorted(findings, key=lambda finding: -finding.level))


def _named(finding: Finding, folder: str) -> Finding:
    """Regions elsewhere than at the usual place are cleaned only where they are named."""
    if finding.command != CLEAN or folder == DEFAULT_FOLDER:
        return finding
    return replace(finding, command=f"ttmem clean --shm {shlex.quote(folder)} --yes")


def _all(facts: HostFacts) -> Iterator[Finding]:
    yield from card_findings(facts)
    yield from folder_findings(facts)
    yield from limit_findings(facts)
    yield from region_findings(facts)
    for remark in facts.remarks:
        yield remark_finding(remark)
    yield from socket_findings(facts.sockets)
    yield from probe_findings(facts)
