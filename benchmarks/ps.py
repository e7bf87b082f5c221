"""How fast `ttmem ps` is there on a full machine, and how soon a killed process is gone."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path

from benchmarks.ground import Failed, amount, owners, wait_until
from benchmarks.server import running_server
from benchmarks.shared_memory import DEVICES, PROCESSES, region
from benchmarks.table import Row
from ttmem.api import snapshot
from ttmem.sources.counters.layout import STOCK

RUNS = amount(15, 1)
KILLS = amount(10, 2)
CHIP = 0x41 << 41
LIMIT_MS = 80.0
LIMIT_GONE_MS = 1000.0


def measure() -> list[Row]:
    """Start and end of whole processes; then deaths as the server's users see them."""
    with full_host(DEVICES, PROCESSES) as (folder, _):
        empty, ps = _cpu_ms(["-c", "pass"], ["-m", "ttmem", "ps", "--shm", folder, "--json"])
    what = f"ps --json with {DEVICES} regions x {PROCESSES} processes, beyond an empty Python"
    note = f"{ps / empty:.1f} times the {empty:.0f} ms of python -c pass"
    return [Row(what, ps - empty, "ms", LIMIT_MS, note=note), _gone()]


@contextmanager
def full_host(devices: int, processes: int) -> Iterator[tuple[str, list[BaseProcess]]]:
    """A folder with so many regions, and their owners, who hold 4,096 bytes on each."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        paths = {n: f"{folder}/tt_device_{n}_memory" for n in range(CHIP, CHIP + devices)}
        with owners(processes, paths.values(), STOCK.size) as found:
            for number, path in paths.items():
                Path(path).write_bytes(region(number, [process.pid for process in found], 0))
            yield folder, found


def _cpu_ms(*programs: Sequence[str]) -> list[float]:
    """The least time of each, in turns: processor time, which is the wall's on an idle machine."""
    # Installed packages come with their bytecode.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    best = [float("inf")] * len(programs)
    for _ in range(RUNS):
        for at, program in enumerate(programs):
            child = subprocess.Popen(
                [sys.executable, *program], stdout=subprocess.DEVNULL, env=environment
            )
            _, status, used = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
            if child.returncode:
                raise Failed(f"{' '.join(program)} ended with {child.returncode}")
            best[at] = min(best[at], 1000 * (used.ru_utime + used.ru_stime))
    return best


def _gone() -> Row:
    """From SIGKILL to the first picture in which the others are exact."""
    worst = 0.0
    with full_host(1, KILLS + 2) as (folder, found), running_server("--shm", folder) as path:
        _wait(path, len(found))
        for count, owner in enumerate(found[:KILLS], 1):
            begun = time.perf_counter()
            owner.kill()
            owner.join()
            _wait(path, len(found) - count)
            worst = max(worst, time.perf_counter() - begun)
    return Row(
        f"kill -9 until the server's sums are right, worst of {KILLS}",
        1000 * worst,
        "ms",
        LIMIT_GONE_MS,
    )


def _wait(path: str, processes: int) -> None:
    def exact() -> bool:
        devices = snapshot(path).devices
        return bool(devices) and devices[0].memory.dram.held == 4096 * processes

    wait_until(exact, "the sums are wrong", 0.005)
