"""Processes with namespaces of their own, as in a container: users, pids, mounts, and a /dev/shm."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S

ROOT = Path(__file__).parents[1]
OWN_SHM = "mount -t tmpfs shm /dev/shm"
NAMESPACES = ("--user", "--map-root-user", "--mount", "--pid", "--fork", "--mount-proc")

# Publishes counters like a runtime: a file that it maps. Arguments: chip, bytes of DRAM, a pid other than its own.
PUBLISHER = """
import mmap, os, sys
from pathlib import Path
from tests.sources.region_writer import Slot, Written
chip, dram, pid = map(int, [*sys.argv[1:], 0][:3])
slot = Slot(pid or os.getpid(), (dram, 0, 0, 0, 0), Path("/proc/self/comm").read_bytes().strip())
file = Written(chip, slots=[slot]).write(Path("/dev/shm")).open("r+b")
mapped = mmap.mmap(file.fileno(), 0)
print("ready", flush=True)
input()
"""


@cache
def _possible() -> bool:
    done = subprocess.run(
        ["unshare", *NAMESPACES, "sh", "-c", OWN_SHM], capture_output=True, check=False
    )
    return done.returncode == 0


def needs_namespaces() -> None:
    if not _possible():
        pytest.skip("this kernel lets nobody make namespaces")


def in_container(
    *command: str, shm: str = OWN_SHM, namespaces: Sequence[str] = NAMESPACES
) -> list[str]:
    """A command line; `shm` are shell commands before it."""
    unshare = ["unshare", *namespaces, "--kill-child"] if namespaces else []
    return [*unshare, "sh", "-ec", f'{shm}\nexec "$@"', "sh", *command]


@contextmanager
def container(
    script: str,
    *arguments: object,
    shm: str = OWN_SHM,
    namespaces: Sequence[str] = NAMESPACES,
    variables: Mapping[str, str] | None = None,
) -> Iterator[int]:
    """Runs a Python script inside, which says `ready` and waits; yields its pid here."""
    needs_namespaces()
    python = (sys.executable, "-c", script, *map(str, arguments))
    process = subprocess.Popen(
        in_container(*python, shm=shm, namespaces=namespaces),
        cwd=ROOT,
        env={**os.environ, **(variables or {})},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        forks = "--fork" in namespaces
        yield _child(process.pid) if forks else process.pid
    finally:
        process.kill()
        process.communicate(timeout=PATIENCE_S)


def _child(pid: int) -> int:
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])
