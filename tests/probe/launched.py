"""`ttmem run` as a user starts it, with the small runtime in the command."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.patience import PATIENCE_S
from tests.probe.watched import PRELUDE


class Launcher:
    """Starts `ttmem run`; the regions are in a folder of its own."""

    def __init__(self, runtime: Path, folder: Path) -> None:
        self._runtime = runtime
        self.folder = folder

    def line(self, *command: str, options: tuple[str, ...] = ()) -> list[str]:
        """The command line."""
        run = [sys.executable, "-m", "ttmem", "run", "--shm", str(self.folder)]
        # The small runtime lacks most of what the real one has, and the library says so.
        if "--quiet" not in options:
            run += ["--log", str(self.folder / "log")]
        return [*run, *options, "--", *command]

    def program(self, script: str) -> list[str]:
        """A command that loads the runtime and does what `script` says, as the file model.py."""
        code = f"{PRELUDE}\nexec(compile({script!r}, 'model.py', 'exec'))"
        return [sys.executable, "-c", code, str(self._runtime)]

    def run(
        self, *command: str, options: tuple[str, ...] = (), **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """To its end."""
        return subprocess.run(
            self.line(*command, options=options),
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    def summary(self, script: str, *options: str) -> str:
        """What is said at the end about a program that ends well."""
        done = self.run(*self.program(script), options=options)
        assert done.returncode == 0, done.stderr
        return done.stderr

    @contextmanager
    def running(self, *command: str) -> Iterator[subprocess.Popen[str]]:
        """In a process group of its own, as a shell starts a job."""
        with subprocess.Popen(
            self.line(*command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=os.setpgrp,
        ) as process:
            try:
                yield process
            finally:
                process.kill()
