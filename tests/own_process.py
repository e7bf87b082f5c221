"""Commands, and `ttmem` itself, in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.patience import PATIENCE_S

TTMEM = (sys.executable, "-m", "ttmem")


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def ran(
    command: Sequence[str | Path], *, timeout: float = PATIENCE_S, check: bool = False, **how: Any
) -> subprocess.CompletedProcess[str]:
    """Any command, run to its end."""
    return subprocess.run(
        command, capture_output=True, text=True, timeout=timeout, check=check, **how
    )


def start(*arguments: object, **environment: str) -> subprocess.Popen[str]:
    """It looks for no server of this machine, unless it is told to."""
    inherited = {name: value for name, value in os.environ.items() if name != "TTMEM_SOCKET"}
    return subprocess.Popen(
        [*TTMEM, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=inherited | environment,
    )


def finish(*arguments: object, **environment: str) -> Done:
    process = start(*arguments, **environment)
    out, error = process.communicate(timeout=PATIENCE_S)
    return Done(process.returncode, out, error)


def printed(*arguments: object, **environment: str) -> dict[str, Any]:
    """What it prints with --json."""
    _, out, error = finish(*arguments, "--json", **environment)
    assert out, error
    document: dict[str, Any] = json.loads(out)
    return document


def processes_that_name(word: Path | str) -> list[int]:
    """Pids of processes with this word in their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdecimal() and str(word).encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found
