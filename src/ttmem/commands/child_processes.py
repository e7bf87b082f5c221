"""`ttmem simulate` as several processes: they begin together, and none outlives this one."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence

GRACE = 5.0  # seconds between a polite end and a hard one


def run_children(options: argparse.Namespace, chips: int, stopped: Callable[[float], bool]) -> int:
    """Waits for all of them, or ends them; the exit code of one that failed.

    Each gets `chips` chips of its own; 0: all use the same.
    """
    children: list[subprocess.Popen[bytes]] = []
    told: set[int] = set()
    worst = 0
    try:
        for number in range(options.processes):
            # A session of its own: Ctrl-C reaches this process alone, which then ends each child once.
            command = _command(options, number, chips)
            children.append(subprocess.Popen(command, start_new_session=True))
        running = True
        while running:
            ending = stopped(0.05)
            running = bool([child for child in children if child.poll() is None])  # asks every one
            worst = _judge(children, told) or worst
            if ending:
                break
    finally:
        end_all(children)
    # One that was killed an instant before the end could not be waited for then; SIGTERM is ours.
    killed = [child for child in children if (child.returncode or 0) < 0]
    return _judge([one for one in killed if one.returncode != -signal.SIGTERM], told) or worst


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


def _judge(children: Sequence[subprocess.Popen[bytes]], told: set[int]) -> int:
    """Names each that failed, once, as soon as it is known."""
    worst = 0
    for child in children:
        code = child.returncode
        if code and child.pid not in told:
            told.add(child.pid)
            print(f"ttmem: process {child.pid} {how_it_ended(code)}", file=sys.stderr)
            worst = worst or (code if code > 0 else 1)
    return worst


def _command(options: argparse.Namespace, number: int, chips: int) -> list[str]:
    """The same workload with a seed of its own, and with its own chips."""
    command = [sys.executable, "-m", "ttmem", "simulate", options.name]
    if options.board:
        command += ["--board", options.board]
    if options.mesh:
        command += ["--mesh", "{}x{}".format(*options.mesh)]
    if options.socket:
        command += ["--socket", options.socket]
    command += ["--steps", str(options.steps), "--rate", repr(options.rate)]
    command += ["--seed", str(options.seed + number), "--size", options.size]
    command += ["--first-device", str(number * chips)]
    return [*command, "--parent", str(os.getpid())]
