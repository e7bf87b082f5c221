"""Finds the CPythons of this machine, on the PATH and where pyenv puts them."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SUPPORTED = ("3.10", "3.11", "3.12", "3.13", "3.14")

# A Debian python3 without python3-venv has no ensurepip; such an interpreter is of no use.
_QUESTION = """
import ensurepip, platform, sys, venv
print(sys.implementation.name, platform.machine(), platform.python_version(), sys.executable)
"""


@dataclass(frozen=True, slots=True)
class Interpreter:
    path: Path
    version: str  # "3.12.1"

    @property
    def series(self) -> str:
        return self.version.rpartition(".")[0]


def find_interpreter(series: str) -> Interpreter | None:
    """The newest release of a series such as 3.12."""
    for candidate in _candidates(series):
        found = examine(candidate)
        if found is not None and found.series == series:
            return found
    return None


def find_interpreters(wanted: tuple[str, ...] = SUPPORTED) -> list[Interpreter]:
    return [found for series in wanted if (found := find_interpreter(series)) is not None]


def examine(candidate: Path) -> Interpreter | None:
    """What it says about itself: a name on the PATH may be a shim that leads nowhere."""
    try:
        done = subprocess.run(
            [candidate, "-c", _QUESTION], capture_output=True, text=True, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    answer = done.stdout.strip().split(" ", 3)
    if done.returncode != 0 or len(answer) != 4:
        return None
    name, machine, version, path = answer
    return Interpreter(Path(path), version) if (name, machine) == ("cpython", "x86_64") else None


def _candidates(series: str) -> Iterator[Path]:
    on_path = shutil.which(f"python{series}")
    if on_path:
        yield Path(on_path)
    for root in (os.environ.get("PYENV_ROOT"), "~/.pyenv"):
        if root:
            versions = Path(root).expanduser() / "versions"
            yield from sorted(versions.glob(f"{series}.*/bin/python{series}"), reverse=True)
