"""Regions that the probe made, of live and dead processes."""

from __future__ import annotations

import os
from contextlib import closing

from ttmem.process_identity import start_time_ns, user_name
from ttmem.sources.host.facts import ProbeFacts
from ttmem.sources.probe_region import (
    BadRegion,
    ForeignRegion,
    ProbeRegion,
    RegionName,
    find_regions,
)

MOST = 1024


def probe_facts(folder: str) -> tuple[ProbeFacts, ...]:
    """In the order of their names; a folder full of them is cut."""
    found = []
    for name, _ in zip(find_regions(folder), range(MOST), strict=False):
        facts = _facts(name)
        if facts is not None:
            found.append(facts)
    return tuple(found)


def _facts(name: RegionName) -> ProbeFacts | None:
    try:
        status = os.lstat(name.path)
    except OSError:
        return None  # gone meanwhile
    size, user = status.st_size, user_name(status.st_uid)
    try:
        with closing(ProbeRegion(name.path)) as region:
            header = region.header()
            return ProbeFacts(
                name.path,
                region.pid,
                size,
                user,
                region.process_alive(),
                header.version,
                header.tracking,
                tuple(sorted(region.features().items())),
            )
    except (BadRegion, OSError, ValueError) as problem:
        reason = str(problem)
        closed = isinstance(problem.__cause__, PermissionError)
        foreign = isinstance(problem, ForeignRegion)
    alive = start_time_ns(name.pid) is not None
    return ProbeFacts(
        name.path, name.pid, size, user, alive, problem=reason, closed=closed, foreign=foreign
    )
