"""Finds a CPython that ttnn publishes wheels for; it need not be the one that runs the tests."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

VERSIONS = ("3.12", "3.10")
OVERRIDE = "TTMEM_TTNN_PYTHON"

# A Debian python3 without python3-venv has no ensurepip; such an interpreter is of no use.
_QUESTION = """
import ensurepip, platform, sys, venv
print(sys.implementation.name, platform.machine(), platform.python_version(), sys.executable)
"""


@dataclass(frozen=True, slots=True)
class Interpreter:
    path: Path
    version: str


class Unavailable(Exception):
    """The bench cannot run here; the message says why, in one line, and what would help."""


def find_interpreter() -> Interpreter:
    given = os.environ.get(OVERRIDE)
    if given:
        found = _ask(Path(given))
        if found is None:
            raise Unavailable(f"{OVERRIDE}={given} is no CPython {' or '.join(VERSIONS)} with venv")
        return found
    for version in VERSIONS:
        for candidate in _candidates(version):
            found = _ask(candidate)
            if found is not None and found.version.startswith(f"{version}."):
                return found
    raise Unavailable(f"no CPython {' or '.join(VERSIONS)} found; install one or set {OVERRIDE}")


def _candidates(version: str) -> Iterator[Path]:
    on_path = shutil.which(f"python{version}")
    if on_path:
        yield Path(on_path)
    for root in (os.environ.get("PYENV_ROOT"), "~/.pyenv"):
        if root:
            versions = Path(root).expanduser() / "versions"
            yield from sorted(versions.glob(f"{version}*/bin/python{version}"), reverse=True)


def _ask(candidate: Path) -> Interpreter | None:
    """What it says of itself: a name on the PATH may be a shim that leads nowhere."""
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
    fits = version.rpartition(".")[0] in VERSIONS
    return (
        Interpreter(Path(path), version)
        if (name, machine, fits) == ("cpython", "x86_64", True)
        else None
    )
