"""Programs that tests run in a process of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import ttmem.client
from tests.patience import PATIENCE_S

SOURCES = str(Path(ttmem.client.__file__).parents[2])

START = """
import os, signal, sys, threading, time
from ttmem.client import *
path, arguments = sys.argv[1], sys.argv[2:]
tracker = GraphTracker.instance()
client = tracker.client
def flush():
    assert client.flush(100), "the peer does not read"
def say(text):
    print(text, flush=True)
"""


def start(code: str, path: str, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    """Starts a program whose tracker is on and reports to the path."""
    variables = {
        **os.environ,
        "PYTHONPATH": SOURCES,
        "TTMEM_SOCKET": path,
        "TT_ALLOC_TRACKING_ENABLED": "1",
        **environment,
    }
    return subprocess.Popen(
        [sys.executable, "-c", START + code, path, *arguments],
        env=variables,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(code: str, path: str, *arguments: str, **environment: str) -> tuple[str, str]:
    """Runs it to its end; what it wrote to stdout and to stderr."""
    process = start(code, path, *arguments, **environment)
    out, error = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, error
    return out, error


def line(process: subprocess.Popen[str]) -> str:
    """The next line it says."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


def go_on(process: subprocess.Popen[str]) -> None:
    """Lets a program go on that waits in input()."""
    assert process.stdin is not None
    print(file=process.stdin, flush=True)
