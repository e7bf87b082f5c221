"""`ttmem simulate` as several processes: they begin together, and none outlives this one."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable, Sequence

GRACE = 5.0  # seconds between a polite end and a hard one


def run_children(options: argparse.Namespace, stopped: Callable[[float], bool]) -> int:
    """Waits for all of them, or ends them; the exit code of the first that failed."""
    children: list[subprocess.Popen[bytes]] = []
    try:
        for number in range(options.processes):
            children.append(subprocess.Popen(_command(options, number)))
        while any(child.poll() is None for child in children):
            if stopped(0.05):
                return 0
    finally:
        end_all(children)
    return _judge(children)


def end_all(children: Sequence[subprocess.Popen[bytes]]) -> None:
    """SIGTERM to all, then SIGKILL to those who do not mind."""
    try:
        for child in children:
            child.terminate()
        for child in children:
            child.wait(GRACE)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        pass
    finally:
        for child in children:
            child.kill()
            child.wait()


def how_it_ended(code: int) -> str:
    """An exit code in words."""
    return f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"


def _judge(children: Sequence[subprocess.Popen[bytes]]) -> int:
    worst = 0
    for child in children:
        code = child.returncode
        if code:
            print(f"ttmem: process {child.pid} {how_it_ended(code)}", file=sys.stderr)
            worst = worst or (code if code > 0 else 1)
    return worst


def _command(options: argparse.Namespace, number: int) -> list[str]:
    """The same workload with a seed of its own."""
    command = [sys.executable, "-m", "ttmem", "simulate", options.name]
    if options.board:
        command += ["--board", options.board]
    if options.mesh:
        command += ["--mesh", "{}x{}".format(*options.mesh)]
    if options.socket:
        command += ["--socket", options.socket]
    command += ["--steps", str(options.steps), "--rate", repr(options.rate)]
    command += ["--seed", str(options.seed + number), "--size", options.size]
    return [*command, "--parent", str(os.getpid())]
