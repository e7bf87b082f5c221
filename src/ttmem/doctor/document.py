"""Facts and findings as JSON, `ttmem.doctor/1`. Keys are added, never renamed."""

from __future__ import annotations

from typing import Any

from ttmem.doctor.finding import Finding, worst
from ttmem.sources.host import HostFacts, ProbeFacts, RegionFacts

SCHEMA = "ttmem.doctor/1"


def document(facts: HostFacts, findings: tuple[Finding, ...]) -> dict[str, Any]:
    """Unknown values are null."""
    level = worst(findings)
    here = facts.surroundings
    return {
        "schema": SCHEMA,
        "time_ns": facts.time_ns,
        "worst": None if level is None else level.word,
        "findings": [_finding(each) for each in findings],
        "driver": facts.driver,
        "cards": [
            {"name": c.name, "board": c.board, "pci": c.pci, "node": c.node, "usable": c.usable}
            for c in facts.cards
        ],
        "runtimes": [
            {"version": r.version, "path": r.path, "pids": list(r.pids)} for r in facts.runtimes
        ],
        "shared_memory": {
            "path": facts.folder.path,
            "size": facts.folder.size,
            "free": facts.folder.free,
        },
        "regions": [_region(each) for each in facts.regions],
        "sockets": [
            {
                "path": s.path,
                "state": s.state.value,
                "user": s.user,
                "server_pid": s.server_pid,
                "server": s.server,
            }
            for s in facts.sockets
        ],
        "probe_regions": [_probe(each) for each in facts.probes],
        "surroundings": {
            "host_pids": here.host_pids,
            "host_ipc": here.host_ipc,
            "hidden_pids": here.hidden_pids,
            "root": here.root,
            "tracking_disabled": here.tracking_disabled,
        },
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "kind": finding.kind,
        "level": finding.level.word,
        "text": finding.text,
        "command": finding.command,
        "advice": finding.advice,
        "pid": finding.pid,
        "bytes": finding.bytes,
        "path": finding.path,
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
        "mapped_by": list(region.mapped_by),
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


def _probe(probe: ProbeFacts) -> dict[str, Any]:
    return {
        "path": probe.path,
        "pid": probe.pid,
        "size": probe.size,
        "user": probe.user,
        "alive": probe.alive,
        "version": probe.version,
        "tracking": probe.tracking,
        "features": dict(probe.features),
        "problem": probe.problem,
    }
