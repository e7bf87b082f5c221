"""Processes that own, map and leave regions; backups go to the test's own folder."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from ttmem.clean.backup import Backups
from ttmem.clean.planning import Plan, make_plan
from ttmem.sources.host import surroundings

Planner = Callable[[], Plan]
Start = Callable[[], int]
Mapper = Callable[..., int]

_MAP = """
import mmap, os, sys
file = os.open(sys.argv[1], os.O_RDWR)
region = mmap.mmap(file, os.fstat(file).st_size)
os.close(file)
print("mapped", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def backups(tmp_path: Path) -> Backups:
    return Backups(tmp_path / "state")


@pytest.fixture
def plan(shm: Path) -> Planner:
    """Where the tests run in a container themselves, pids must be believed to be dead."""
    here = surroundings()
    force = here.hidden_pids or not here.host_pids
    return lambda: make_plan(str(shm), None, force)


@pytest.fixture
def children() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def living(children: ExitStack) -> Start:
    """The pid of a process that lives as long as the test."""

    def start() -> int:
        child = subprocess.Popen(["sleep", "600"])
        children.callback(child.wait)
        children.callback(child.kill)
        return child.pid

    return start


@pytest.fixture
def dead() -> Start:
    """The pid of a process that was killed."""

    def start() -> int:
        child = subprocess.Popen(["sleep", "600"])
        child.kill()
        child.wait()
        return child.pid

    return start


@pytest.fixture
def mapping(children: ExitStack) -> Mapper:
    """The pid of a process that maps the file, as a runtime does; `within` another command."""

    def start(path: Path, *within: str) -> int:
        child = subprocess.Popen(
            [*within, sys.executable, "-c", _MAP, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        children.enter_context(child)  # closes its pipes, which ends it, and waits
        assert child.stdout is not None
        assert child.stdout.readline() == b"mapped\n"
        return child.pid

    return start
