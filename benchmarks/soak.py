"""`python -m benchmarks.soak`: the monitor on a busy host for an hour (SOAK_SECONDS); its memory stays flat."""

from __future__ import annotations

import os
import sys
import time

from tests.views.monitor.terminal_program import TerminalProgram

from benchmarks.busy_host import busy_host
from benchmarks.ground import own_folders
from benchmarks.server import running_server
from benchmarks.table import Row, show

WARM = 0.1  # of the time: imports, caches and the first pictures
MOST = 32.0  # MiB; an hour of samples of 32 devices is 6.2
VIEWS = "123456"


def main() -> int:
    """Exit code 1 if the memory has grown too much."""
    seconds = float(os.environ.get("SOAK_SECONDS", "3600"))
    with own_folders(), running_server() as path, busy_host(path):
        grown = growth(path, seconds)
    row = Row(f"monitor: growth of memory in {seconds:g} s at 10 Hz", grown, "MiB", MOST)
    print(show([row]))
    return int(row.ratio < 1)


def growth(path: str, seconds: float) -> float:
    """MiB that `ttmem top` gains after the first tenth of the time, while the views are switched."""
    command = [sys.executable, "-m", "ttmem", "top", "--socket", path, "--interval", "0.1"]
    with TerminalProgram(command, width=200, height=60) as program:
        program.wait_for("1 Overview")
        begun = time.monotonic()
        early: list[float] = []
        step = 0
        while (age := time.monotonic() - begun) < seconds:
            program.press(VIEWS[step % len(VIEWS)])
            program.forget()
            program.read_for(min(1.0, seconds / 60))
            step += 1
            if age < seconds * WARM or not early:
                early.append(_memory(program.process.pid))
        return max(_memory(program.process.pid) - max(early), 0.0)


def _memory(pid: int) -> float:
    """MiB that are resident."""
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


if __name__ == "__main__":
    sys.exit(main())
