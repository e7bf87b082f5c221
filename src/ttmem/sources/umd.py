"""The machine's chips as the user-mode driver finds them, where the extra `umd` is installed.

It talks to the chips and is native code: it runs in a process of its own, so that it can neither crash
a monitor nor make it wait for ever.
"""

from __future__ import annotations

import json
import os
import select
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from ttmem.errors import BadInput
from ttmem.hw import Cluster, read_cluster
from ttmem.sources.cards import NODES

if TYPE_CHECKING:
    import subprocess

_DISCOVER = """\
import sys, tt_umd
tt_umd.TopologyDiscovery.discover()[0].serialize_to_file(sys.argv[1])
"""
_PATIENCE_S = 30
_RETRY_S = 10.0
_MOST_BYTES = 1 << 20  # 32 chips take 20 KiB


class Discovery:
    """Started by the first question, once; the answer is None until it is there."""

    def __init__(self, cards: str = NODES, *, wait_s: float = 0.0, script: str = _DISCOVER) -> None:
        self._cards = cards
        self._wait_s = wait_s
        self._script = script
        self._thread: threading.Thread | None = None
        self._cluster: Cluster | None = None

    def cluster(self) -> Cluster | None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, daemon=True, name="umd discovery")
            self._thread.start()
            self._thread.join(self._wait_s)
        return self._cluster

    def is_possible(self) -> bool:
        """There is a card, and the driver's Python package."""
        return os.path.isdir(self._cards) and find_spec("tt_umd") is not None

    def _run(self) -> None:
        # Slow to import, and wanted on machines with a card and the extra alone.
        import subprocess
        import tempfile

        with tempfile.TemporaryDirectory(prefix="ttmem-umd-") as folder:
            path = os.path.join(folder, "cluster.yaml")
            try:
                subprocess.run(
                    [sys.executable, "-c", self._script, path],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    timeout=_PATIENCE_S,
                    check=True,
                )
                self._cluster = read_cluster(path)
            except (OSError, subprocess.SubprocessError, BadInput):
                pass  # the next source of capacities is asked


def check_umd() -> None:
    """BadInput if the driver's Python package, which --umd asks for, is not installed."""
    if find_spec("tt_umd") is None:
        raise BadInput("--umd needs the user-mode driver: pip install 'ttmem[umd]'")


def discovery(*, wanted: bool, once: bool = False) -> Discovery | None:
    """What `--umd` asks for: nothing unless `wanted`. `once`: the first question waits, there is no second one."""
    if not wanted:
        return None
    check_umd()
    return Discovery(wait_s=_PATIENCE_S if once else 0.0)


class UmdSensors:
    """Asks a child process about the sensors of every chip; starts it when it is first asked, and again after trouble.

    `problem` says why the last question had no answer.
    """

    def __init__(
        self,
        command: Sequence[str] = (sys.executable, "-m", "ttmem.sources.umd_child"),
        *,
        patience_s: float = _PATIENCE_S,
        retry_s: float = _RETRY_S,
    ) -> None:
        self._command = command
        self._patience_s = patience_s
        self._retry_s = retry_s
        self._again = 0.0
        self._child: subprocess.Popen[bytes] | None = None
        self.problem: str | None = None

    def ask(self) -> list[dict[str, Any]]:
        """One object for each chip, of which nothing was checked; none if there is no answer."""
        if self._child is None and time.monotonic() < self._again:
            return []
        try:
            answer = json.loads(self._line())
            if not isinstance(answer, list) or not all(isinstance(one, dict) for one in answer):
                raise ValueError("its answer makes no sense")
        except (OSError, ValueError, RecursionError) as problem:
            self.problem = f"the user-mode driver failed: {problem}"
            self._again = time.monotonic() + self._retry_s
            self.close()
            return []
        self.problem = None
        return answer

    def close(self) -> None:
        """Ends the child, if there is one."""
        if self._child is not None:
            self._child.kill()
            self._child.communicate()
            self._child = None

    def _line(self) -> bytes:
        child = self._started()
        assert child.stdin is not None
        assert child.stdout is not None
        with suppress(BrokenPipeError):  # it has ended: the read says so
            os.write(child.stdin.fileno(), b"\n")
        deadline = time.monotonic() + self._patience_s
        line = b""
        while not line.endswith(b"\n"):
            readable = select.poll()
            readable.register(child.stdout, select.POLLIN)
            if not readable.poll(1000 * max(0.0, deadline - time.monotonic())):
                raise OSError(f"no answer within {self._patience_s:.0f} s")
            part = os.read(child.stdout.fileno(), 1 << 16)
            if not part:
                raise OSError(f"it ended ({_ending(child.wait(self._patience_s))})")
            line += part
            if len(line) > _MOST_BYTES:
                raise OSError("its answer is too long")
        return line

    def _started(self) -> subprocess.Popen[bytes]:
        import subprocess

        if self._child is None:
            self._child = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        return self._child


def _ending(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"
