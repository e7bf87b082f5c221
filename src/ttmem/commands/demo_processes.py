"""The processes of the demo: a private server and two applications, all in one folder that goes with them."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack

from ttmem.commands.child_processes import end_all, how_it_ended
from ttmem.errors import TtmemError

STARTING = 20.0  # seconds
RATE = 20  # steps per second
WORKLOADS = (("transformer",), ("serving", "--processes", "2"))


class DemoProcesses:
    """They live as long as the `with` block."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._folder = ""

    @property
    def socket(self) -> str:
        """Where the server listens."""
        return os.path.join(self._folder, "server.sock")

    def __enter__(self) -> DemoProcesses:
        with ExitStack() as stack:
            self._folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="ttmem-demo-"))
            stack.callback(self._end)
            self._start("server", "serve", "--quiet", "--no-shm")
            self._wait_for_server()
            for name, *options in WORKLOADS:
                self._start(name, "simulate", name, *options, "--steps", "0", "--rate", str(RATE))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def check(self) -> None:
        """TtmemError if one of them has died."""
        for name, process in self._running.items():
            code = process.poll()
            if code is not None:
                raise TtmemError(f"the demo's {name} {how_it_ended(code)}{self._last_words(name)}")

    def _start(self, name: str, *arguments: str) -> None:
        """A terminal that shows the table is no place for their words; the last are kept."""
        command = [sys.executable, "-m", "ttmem", *arguments, "--socket", self.socket]
        if name != "server":
            command += ["--parent", str(os.getpid())]
        with open(self._log(name), "wb") as log:
            self._running[name] = subprocess.Popen(
                command, stdout=log, stderr=log, start_new_session=True
            )

    def _wait_for_server(self) -> None:
        end = time.monotonic() + STARTING
        while not os.path.exists(self.socket):
            self.check()
            if time.monotonic() > end:
                raise TtmemError("the demo's server did not start; run `ttmem serve` to see why")
            time.sleep(0.02)

    def _end(self) -> None:
        """Applications first, so that none of them misses its server."""
        processes = list(self._running.values())
        end_all(processes[1:])
        end_all(processes[:1])

    def _log(self, name: str) -> str:
        return os.path.join(self._folder, f"{name}.log")

    def _last_words(self, name: str) -> str:
        with open(self._log(name), encoding="utf-8", errors="replace") as log:
            lines = log.read().splitlines()
        return f": {lines[-1]}" if lines else ""
