"""Finds a CPython that ttnn publishes wheels for; it need not be the one that runs the tests."""

from __future__ import annotations

import os
from pathlib import Path

from tests.interpreters import Interpreter, examine, find_interpreters

VERSIONS = ("3.12", "3.10")
OVERRIDE = "TTMEM_TTNN_PYTHON"


class Unavailable(Exception):
    """The bench cannot run here; the message says why, in one line, and what would help."""


def find_interpreter() -> Interpreter:
    given = os.environ.get(OVERRIDE)
    if given:
        found = examine(Path(given))
        if found is None or found.series not in VERSIONS:
            raise Unavailable(f"{OVERRIDE}={given} is no CPython {' or '.join(VERSIONS)} with venv")
        return found
    for found in find_interpreters(VERSIONS):
        return found
    raise Unavailable(f"no CPython {' or '.join(VERSIONS)} found; install one or set {OVERRIDE}")
