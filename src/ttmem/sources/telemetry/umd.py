"""Sensors of every chip, remote ones included, through the user-mode driver in a child process.

The driver is native code that accesses the chips. In its own process it can neither crash a monitor nor block it.
"""

from __future__ import annotations

import json
import os
import select
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ttmem.own_python import module_command

if TYPE_CHECKING:
    import subprocess

_PATIENCE_S = 30
_RETRY_S = 10.0
_MOST_BYTES = 1 << 20  # 32 chips take 20 KiB


class UmdSensors:
    """Starts the child process when it is first asked, and again after a failure.

    `problem` says why the last question had no answer.
    """

    def __init__(
        self,
        command: Sequence[str] = module_command("ttmem.sources.telemetry.umd_child"),
        *,
        patience_s: float = _PATIENCE_S,
    ) -> None:
        self._command = command
        self._patience_s = patience_s
        self._again = 0.0
        self._child: subprocess.Popen[bytes] | None = None
        self.problem: str | None = None

    def ask(self) -> list[dict[str, Any]]:
        """An unchecked object for each chip; none if there is no answer."""
        if self._child is None and time.monotonic() < self._again:
            return []
        try:
            answer = json.loads(self._line())
            if not isinstance(answer, list) or not all(isinstance(entry, dict) for entry in answer):
                raise ValueError("its answer cannot be understood")
        except (OSError, ValueError, RecursionError) as problem:
            self.problem = f"the user-mode driver failed: {problem}"
            self._again = time.monotonic() + _RETRY_S
            self.close()
            return []
        self.problem = None
        return answer

    def close(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child.communicate()
            self._child = None

    def _line(self) -> bytes:
        child = self._started()
        assert child.stdin is not None
        assert child.stdout is not None
        with suppress(BrokenPipeError):  # it has ended, as the read will show
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
