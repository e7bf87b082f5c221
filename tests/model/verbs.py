"""`ttmem` as a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.patience import PATIENCE_S


def start(*arguments: object, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "ttmem", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )


def finish(*arguments: object, **environment: str) -> tuple[int, str, str]:
    process = start(*arguments, **environment)
    out, error = process.communicate(timeout=PATIENCE_S)
    return process.returncode, out, error


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
