"""Try ttmem with no card and no server: scripted workloads, a real server, the table.

Two applications report what a small transformer on four p150 chips and an embedding server would hold.
On a terminal the table follows them live; otherwise three pictures are printed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

from ttmem.api import snapshot
from ttmem.errors import TtmemError
from ttmem.views.table import render
from ttmem.views.terminal import Screen, spelled, wants_color, width


def prepare(parser: argparse.ArgumentParser) -> None:
    """Options of `ttmem demo`."""
    parser.add_argument(
        "--seconds", type=float, default=8.0, help="how long it runs (default %(default)s)"
    )


def run(options: argparse.Namespace) -> int:
    """Server, workloads and table in one process tree; nothing stays behind."""
    seconds = min(max(options.seconds, 1.0), 3600.0)
    with tempfile.TemporaryDirectory(prefix="ttmem-demo-") as folder:
        path = os.path.join(folder, "server.sock")
        with _server(path):
            with _workloads(path, seconds):
                if sys.stdout.isatty():
                    _follow(path, seconds)
                else:
                    for moment, share in (("warming up", 0.25), ("decoding", 0.55)):
                        time.sleep(seconds * share)
                        _print(f"--- {moment}", path)
            _wait_released(path)
            _print("--- both applications were killed: they hold nothing", path)
    return 0


def _follow(path: str, seconds: float) -> None:
    with Screen(sys.stdout) as screen:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            screen.draw(_picture(path))
            time.sleep(0.25)


def _print(title: str, path: str) -> None:
    print(f"\n{title}\n\n{_picture(path)}", flush=True)


def _picture(path: str) -> str:
    text = render(snapshot(path), width=width(sys.stdout), color=wants_color(sys.stdout))
    return spelled(text, sys.stdout)


def _wait_released(path: str) -> None:
    end = time.monotonic() + 5
    while snapshot(path).processes and time.monotonic() < end:
        time.sleep(0.02)


@contextmanager
def _server(path: str) -> Iterator[None]:
    command = [sys.executable, "-m", "ttmem", "serve", "--quiet", "--socket", path]
    with subprocess.Popen(command) as server:
        try:
            end = time.monotonic() + 20
            while not os.path.exists(path):
                if server.poll() is not None or time.monotonic() > end:
                    raise TtmemError(
                        "the demo's server did not start; run `ttmem serve` to see why"
                    )
                time.sleep(0.02)
            yield
        finally:
            server.terminate()


@contextmanager
def _workloads(path: str, seconds: float) -> Iterator[None]:
    environment = {**os.environ, "TTMEM_SOCKET": path}
    jobs = [
        subprocess.Popen(
            [sys.executable, "-m", "ttmem.demo.workloads", name, str(seconds + 1)], env=environment
        )
        for name in ("transformer", "serving")
    ]
    try:
        yield
    finally:
        for job in jobs:
            job.kill()
            job.wait()
