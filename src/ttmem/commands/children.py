"""Processes that `ttmem simulate` and `ttmem demo` start: all of them end with the command."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence

GRACE = 5.0  # seconds between SIGTERM and SIGKILL


def run_children(commands: Iterable[Sequence[str]], stopped: Callable[[float], bool]) -> int:
    """Starts the processes together and waits for them, or ends them; none outlives this one.

    Returns the exit code of one that failed.
    """
    children: list[subprocess.Popen[bytes]] = []
    told: set[int] = set()
    worst = 0
    try:
        for command in commands:
            # A session of its own, so that Ctrl-C reaches only this process, which then ends each child once.
            children.append(subprocess.Popen(command, start_new_session=True))
        running = True
        while running:
            ending = stopped(0.05)
            running = len([child for child in children if child.poll() is None]) > 0  # polls each
            worst = _judge(children, told) or worst
            if ending:
                break
    finally:
        end_all(children)
    # Catches a child that was killed just before the end. SIGTERM came from here.
    killed = [child for child in children if (child.returncode or 0) < 0]
    return (
        _judge([process for process in killed if process.returncode != -signal.SIGTERM], told)
        or worst
    )


def end_all(children: Sequence[subprocess.Popen[bytes]]) -> None:
    """Sends SIGTERM to all, then SIGKILL to those still running."""
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
    return f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"


def _judge(children: Sequence[subprocess.Popen[bytes]], told: set[int]) -> int:
    """Reports each child that failed once, as soon as that is known."""
    worst = 0
    for child in children:
        code = child.returncode
        if code and child.pid not in told:
            told.add(child.pid)
            print(f"ttmem: process {child.pid} {how_it_ended(code)}", file=sys.stderr)
            worst = worst or (code if code > 0 else 1)
    return worst
