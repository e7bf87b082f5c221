"""A real server in a process of its own, and clients that speak the historical wire by hand."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.patience import PATIENCE_S, wait_until
from ttmem.api import snapshot
from ttmem.events import Op
from ttmem.snapshots import Device, Snapshot
from ttmem.wire.historical import HEAD, TAILS, Head, Message, encode

# Another user may not be able to read the interpreter's folders: everything is imported before.
_AS_USER = """
import locale, os, sys
import ttmem.commands.serve, ttmem.commands.ps, ttmem.commands.dump, ttmem.commands.demo, ttmem.commands.simulate
import ttmem.server.server
os.setuid({user})
sys.exit(ttmem.commands.main())
"""

CLOSED = -1  # as stdout: descriptor 1 is free, and the first file that is opened gets it


class RunningServer:
    """`ttmem serve` on a socket in a folder of the test."""

    def __init__(
        self,
        folder: Path,
        *options: str,
        name: str = "server",
        user: int = 0,
        stdout: int | None = None,
        stderr: int | None = None,
        files: int | None = None,
    ) -> None:
        self.path = str(folder / "allocation.sock")
        self._log = folder / f"{name}.log"
        self._output = folder / f"{name}.out"
        program = ["-c", _AS_USER.format(user=user)] if user else ["-m", "ttmem"]
        command = [sys.executable, *program, "serve", "--socket", self.path, *options]
        if stdout == CLOSED:
            command = ["sh", "-c", 'exec "$@" >&-', "sh", *command]
            stdout = None
        if files is not None:
            command = ["sh", "-c", f'ulimit -n {files}; exec "$@"', "sh", *command]
        with self._log.open("wb") as log, self._output.open("wb") as output:
            self.process = subprocess.Popen(
                command,
                stderr=log if stderr is None else stderr,
                stdout=output if stdout is None else stdout,
            )

    def wait_ready(self) -> RunningServer:
        wait_until(lambda: _answers(self.path) or self.process.poll() is not None)
        return self

    @property
    def log(self) -> str:
        return self._log.read_text()

    @property
    def output(self) -> str:
        return self._output.read_text()

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def picture(self, *detail: str) -> Snapshot:
        return snapshot(self.path, detail)

    def device(self, number: int = 0) -> Device:
        found = wait_until(lambda: self.picture().device(number))
        assert found is not None
        return found

    def sees(self, condition: Callable[[Snapshot], bool]) -> Snapshot:
        """A picture for which the condition holds; a failure shows the last one."""
        wait_until(lambda: condition(self.picture()))
        picture = self.picture()
        assert condition(picture), "\n".join(f"{d.unique_id}: {d.memory}" for d in picture.devices)
        return picture

    def logs(self, pattern: str) -> str:
        wait_until(lambda: re.search(pattern, self.log))
        assert re.search(pattern, self.log), self.log
        return self.log

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE_S)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


def _answers(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(path) == 0


class OldClient:
    """One connection of a runtime with the original client."""

    def __init__(self, path: str, record_size: int = 144) -> None:
        self.record_size = record_size
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(PATIENCE_S)
        self.socket.connect(path)

    def __enter__(self) -> OldClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(
        self,
        kind: int,
        device: int = 0,
        size: int = 0,
        what: int = 0,
        id: int = 0,
        pid: int | None = None,
    ) -> None:
        head = Head(kind, device, size, what, os.getpid() if pid is None else pid, id)
        self.socket.sendall(encode(self.record_size, head))

    def alloc(self, size: int, id: int, kind: int = 1, device: int = 0) -> None:
        self.send(Op.ALLOC, device, size, kind, id)

    def ask(self, device: int = 0, kind: Message = Message.QUERY) -> dict[str, int]:
        self.send(kind, device)
        return self.answer()

    def answer(self) -> dict[str, int]:
        data = b""
        while len(data) < self.record_size:
            piece = self.socket.recv(self.record_size - len(data))
            assert piece, "the server closed the connection"
            data += piece
        return tail_of(data)


def tail_of(record: bytes) -> dict[str, int]:
    """The tail of an answer, by field name."""
    layout, names = TAILS[len(record)]
    return dict(zip(names, layout.unpack_from(record, HEAD.size), strict=True))


@contextmanager
def child(
    code: str, *arguments: str, prefix: tuple[str, ...] = (), says: str = "ready"
) -> Iterator[subprocess.Popen[str]]:
    """A Python process that runs `code` (OldClient is imported), says 'ready', and stays until it is killed.

    `says`: what it says first.
    """
    program = textwrap.dedent(code) + "\nprint('ready', flush=True)\nimport time; time.sleep(600)\n"
    opening = "import sys; from tests.server.harness import OldClient\n"
    root = str(Path(__file__).parents[2])
    command = [*prefix, sys.executable, "-c", opening + program, *arguments]
    environment = {**os.environ, "PYTHONPATH": root}
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        cwd=root,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().strip() == says
            yield process
        finally:
            process.kill()
            process.wait()
