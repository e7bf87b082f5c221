"""One process with ttnn loaded, which runs snippets for a test."""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, cast

from tests.ttnn.bench.answers import FAREWELL, CoreBuffer, Views

# The first matmul of a 32-chip machine compiles for seconds on a busy machine; nothing takes minutes.
PATIENCE_SECONDS = 300.0


class SnippetFailed(Exception):
    """The snippet raised; the message is its traceback."""


class SessionEnded(Exception):
    """The process is gone, or says nothing; the message holds the end of its log."""


class Session:
    """Starts at once and loads ttnn in the background, so that several load at the same time.

    Names in a snippet: `ttnn`, `device` (the opened mesh), `views()`, `core_buffers(work)`, `in_thread(work)`, and all
    that earlier snippets have defined. A snippet's value is its last line's; it must fit into JSON.
    """

    def __init__(self, python: Path, variables: Mapping[str, str], log: Path) -> None:
        self.log = log
        self._unanswered = 0
        self._received = b""
        child_reads, self._requests = os.pipe()
        self._answers, child_writes = os.pipe()
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                [python, "-m", "tests.ttnn.bench.child", str(child_reads), str(child_writes)],
                cwd=log.parent,
                env=dict(variables),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=(child_reads, child_writes),
            )
        os.close(child_reads)
        os.close(child_writes)

    @property
    def pid(self) -> int:
        return self.process.pid

    def run(self, code: str, **names: object) -> Any:
        """The snippet's value. Earlier answers that nobody received are passed over."""
        while self._unanswered:
            self.receive()
        self.send(code, **names)
        return self.receive()

    def send(self, code: str, **names: object) -> None:
        """Hands the snippet over and does not wait; `receive` waits for the oldest one's value."""
        line = json.dumps({"code": code, "names": names}).encode() + b"\n"
        self._unanswered += 1
        try:
            while line:
                line = line[os.write(self._requests, line) :]
        except BrokenPipeError:
            raise self._ended("took no more requests") from None

    def receive(self) -> Any:
        self._unanswered -= 1
        answer = json.loads(self._line())
        if "error" in answer:
            raise SnippetFailed(answer["error"])
        return answer["value"]

    def views(self) -> Views:
        return cast(Views, self.run("views()"))

    def core_buffers(self, work: str) -> list[CoreBuffer]:
        """Of an expression that calls ops; nothing is dispatched."""
        return cast(list[CoreBuffer], self.run(f"core_buffers(lambda: {work})"))

    def kill(self) -> None:
        """As the out-of-memory killer would: no close, no farewell."""
        self.process.kill()
        self._release()

    def close(self) -> None:
        """Lets the process close its device and leave; one that does not is killed."""
        if self._requests >= 0:
            try:
                os.write(self._requests, FAREWELL.encode())
                self.process.wait(PATIENCE_SECONDS)
            except BrokenPipeError:
                pass
            except subprocess.TimeoutExpired:
                self.process.kill()
        self._release()

    def _release(self) -> None:
        self.process.wait()
        for descriptor in (self._requests, self._answers):
            if descriptor >= 0:
                os.close(descriptor)
        self._requests = self._answers = -1

    def _line(self) -> bytes:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while b"\n" not in self._received:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._answers], [], [], left)[0]:
                raise self._ended(f"gave no answer in {PATIENCE_SECONDS:.0f} s")
            data = os.read(self._answers, 1 << 16)
            if not data:
                raise self._ended("left without an answer")
            self._received += data
        line, _, self._received = self._received.partition(b"\n")
        return line

    def _ended(self, how: str) -> SessionEnded:
        tail = self.log.read_text(errors="replace")[-4_000:]
        return SessionEnded(f"process {self.pid} {how}; its log ends with:\n{tail}")

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: object, trace: TracebackType | None
    ) -> None:
        self.close()
