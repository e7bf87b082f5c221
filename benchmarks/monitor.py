"""What `ttmem top` costs on a busy host, how soon it is there, and how fast it answers a key.

The real program in a real terminal, against a real server: 32 devices, 64 processes, 1,000 programs.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from statistics import median
from tempfile import TemporaryDirectory

from tests.views.monitor.terminal_program import TerminalProgram

from benchmarks.busy_host import busy_host
from benchmarks.ground import amount
from benchmarks.server import running_server
from benchmarks.table import Row

WARM = amount(4, 1)  # seconds until imports and the past of the devices are done
SECONDS = amount(15, 1)
STARTS = amount(9, 1)
KEYS = amount(30, 2)
_TICKS = os.sysconf("SC_CLK_TCK")


def measure() -> list[Row]:
    """CPU at 1 and at 10 Hz, start, keys."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # installed packages come with their bytecode
    # Other programs on this machine are not part of it.
    with TemporaryDirectory() as nothing, running_server("--shm", nothing) as path, busy_host(path):
        starts = [(_empty(), _start(path)) for _ in range(STARTS)]
        slow = _cpu(path, "1")
        fast = _cpu(path, "0.1")
        keys = _keys(path)
    return [
        _start_row(starts),
        Row("monitor: CPU of one core at 1 Hz", 100 * slow, "%", 1.5),
        Row("monitor: CPU of one core at 10 Hz", 100 * fast, "%", 7),
        Row(
            "monitor: key to changed screen at 10 Hz",
            1000 * median(keys),
            "ms",
            100,
            note=f"worst of {KEYS}: {1000 * max(keys):.0f} ms",
        ),
    ]


def _start_row(starts: Sequence[tuple[float, float]]) -> Row:
    empty, first = (1000 * min(times) for times in zip(*starts, strict=True))
    return Row(
        "monitor: start to first picture, 32 devices, beyond an empty Python",
        first - empty,
        "ms",
        200,
        note=f"{first:.0f} ms in all; python -c pass takes {empty:.0f} ms",
    )


def _empty() -> float:
    begun = time.perf_counter()
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    return time.perf_counter() - begun


def _top(path: str, interval: str) -> TerminalProgram:
    command = [sys.executable, "-m", "ttmem", "top", "--socket", path, "--interval", interval]
    return TerminalProgram(command, width=200, height=60, environment={"COLORTERM": "truecolor"})


def _start(path: str) -> float:
    begun = time.perf_counter()
    with _top(path, "1") as program:
        program.wait_for("32 devices", "p150")
        return time.perf_counter() - begun


def _cpu(path: str, interval: str) -> float:
    with _top(path, interval) as program:
        program.read_for(WARM)
        before, begun = _used(program.process.pid), time.perf_counter()
        program.read_for(SECONDS)
        return (_used(program.process.pid) - before) / (time.perf_counter() - begun)


def _keys(path: str) -> list[float]:
    """The help opens and closes: nearly every line of the screen changes."""
    times = []
    with _top(path, "0.1") as program:
        program.read_for(WARM)
        for number in range(KEYS):
            program.read_for(0.13)
            word = "32 devices" if number % 2 else "Keys of every page"
            begun = time.perf_counter()
            program.press("h")
            program.wait_for(word)
            times.append(time.perf_counter() - begun)
    return times


def _used(pid: int) -> float:
    """CPU seconds of a process, all threads."""
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS
