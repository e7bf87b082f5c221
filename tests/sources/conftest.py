"""Real processes that own slots."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ttmem.hw.discovery import Capacities
from ttmem.sources.counters.proc_scan import ProcScanner
from ttmem.sources.counters.source import CounterSource

Spawn = Callable[[], "subprocess.Popen[bytes]"]


@pytest.fixture
def spawn() -> Iterator[Spawn]:
    """Starts a process that lives until the test ends, or kills it."""
    children: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        children.append(subprocess.Popen(["sleep", "600"]))
        return children[-1]

    yield start
    for child in children:
        child.kill()
        child.wait()


@pytest.fixture
def source(tmp_path: Path) -> CounterSource:
    """Reads `tmp_path`, on a machine without a driver; /proc is walked once."""
    return CounterSource(
        str(tmp_path),
        scanner=ProcScanner(period_s=float("inf")),
        capacities=Capacities(sysfs=str(tmp_path / "no sysfs")),
    )
