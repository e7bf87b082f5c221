"""What ttmem shows: of one process, device by device; and of all, by its command line."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any, TypeAlias

from tests.ttnn.bench.machine import SHARED_MEMORY, Machine
from ttmem.feeds import LocalFeed

Figures: TypeAlias = dict[str, int | None]

NOTHING: Figures = dict.fromkeys(("dram", "l1", "l1_small", "trace", "cb"), 0)


def shown(feed: LocalFeed, machine: Machine, pid: int) -> dict[int, Figures]:
    """By unique id of the device; a process that is not listed there holds nothing."""
    found = dict.fromkeys(machine.unique_ids, NOTHING)
    for process in feed.read().processes:
        if process.pid == pid:
            for unique, held in process.devices.items():
                found[int(unique)] = {kind: getattr(held, kind) for kind in NOTHING}
    return found


def printed() -> dict[str, Any]:
    """`ttmem ps --json`, as a program would read it."""
    command = (sys.executable, "-m", "ttmem", "ps", "--json", "--shm", str(SHARED_MEMORY))
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout))
