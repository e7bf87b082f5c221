"""Processes that own slots, and die when they are told to."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def sleepers(count: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """So many live processes."""
    children = [subprocess.Popen(["sleep", "600"]) for _ in range(count)]
    try:
        yield children
    finally:
        for child in children:
            child.kill()
            child.wait()
