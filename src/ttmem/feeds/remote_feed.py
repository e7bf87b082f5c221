"""Snapshots from another host: ttmem is run there over SSH, and its protocol goes through the pipe. Both ends of it."""

from __future__ import annotations

import json
import os
import shlex
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import IO, Any

from ttmem.client.connection import connect, explained
from ttmem.client.query import ServerConnection
from ttmem.errors import BadInput, ClosedToYou, NoServer, NothingToRead, Refused, TtmemError
from ttmem.feeds.feed import Feed, idle_host
from ttmem.feeds.opening import open_feed
from ttmem.feeds.server_feed import ServerFeed
from ttmem.snapshots import Question, Snapshot, to_json
from ttmem.text import printable
from ttmem.version import __version__
from ttmem.wire.frames import (
    Frame,
    FrameError,
    FrameStream,
    answer_frame,
    frame,
    json_frame,
    preamble,
)

PATIENCE_S = 10.0  # for an answer
LOGIN_S = 120.0  # for whoever types a password
PARTING_S = 2.0
LONGEST_PAUSE_S = 30.0  # between two attempts; servers lock out who tries too often
KEPT = 4096  # bytes of what ssh said last
PIECE = 1 << 18  # bytes that the relay passes on at once
INPUT, OUTPUT = 0, 1
OPTIONS = ("ConnectTimeout=10", "ServerAliveInterval=5", "ServerAliveCountMax=3")


class RemoteFeed(ServerFeed):
    """`host` is what `ssh` takes: a name of ~/.ssh/config, or user@box. `program` is ttmem there.

    The first connection may ask for a password; later ones do not, because a monitor has the terminal then.
    """

    def __init__(
        self,
        host: str,
        program: str = "ttmem",
        *,
        socket: str | None = None,
        shm: str | None = None,
    ) -> None:
        if host.startswith("-") or not host.strip() or not host.isprintable():
            raise BadInput(f"{host!r:.100} is no host; write BOX or USER@BOX")
        super().__init__(host, PATIENCE_S)
        self._host = host
        self._command = remote_command(program, socket, shm)
        self._ssh: subprocess.Popen[bytes] | None = None
        self._said = bytearray()
        self._listener: threading.Thread | None = None
        self._met = False  # it has answered once
        self._lost: str | None = None  # since when it does not
        self._pause = 0.0
        self._again_at = 0.0
        self._problem: TtmemError | None = None

    @property
    def name(self) -> str:
        """'ttmem on user@box'."""
        return f"ttmem on {self._host}"

    def answer(self, question: Question) -> Snapshot:
        if self._problem is not None and time.monotonic() < self._again_at:
            raise self._problem
        try:
            snapshot = super().answer(question)
        except TtmemError as trouble:
            problem = self._explained(trouble)
            self._hang_up()
            self._remember(problem)
            raise (self._problem or problem) from trouble
        self._met, self._lost, self._problem, self._pause = True, None, None, 0.0
        return snapshot

    def close(self) -> None:
        super().close()
        self._hang_up()

    def _connected(self) -> ServerConnection:
        mine, other = socket.socketpair()
        batch = ["-o", "BatchMode=yes"] if self._met else []
        options = [word for option in OPTIONS for word in ("-o", option)]
        command = ["ssh", "-T", *batch, *options, "--", self._host, self._command]
        try:
            with other:
                self._ssh = subprocess.Popen(
                    command, stdin=other.fileno(), stdout=other.fileno(), stderr=subprocess.PIPE
                )
        except OSError as problem:
            mine.close()
            raise TtmemError(f"ssh cannot be run: {problem.strerror}; install it") from problem
        self._said.clear()
        self._listener = threading.Thread(
            target=self._listen, args=(self._ssh.stderr,), daemon=True
        )
        self._listener.start()
        mine.settimeout(PATIENCE_S if self._met else LOGIN_S)
        made = ServerConnection(self._host, self._timeout, through=mine)
        mine.settimeout(PATIENCE_S)
        return made

    def _listen(self, errors: IO[bytes]) -> None:
        """What ssh and the other side complain about; only the end of it is kept."""
        with errors, suppress(OSError, ValueError):
            while data := errors.read1(KEPT):  # type: ignore[attr-defined]
                self._said += data
                del self._said[:-KEPT]

    def _explained(self, trouble: TtmemError) -> TtmemError:
        """Says what ended the conversation, by how ssh ended."""
        ssh = self._ssh
        if ssh is None:
            return trouble
        with suppress(subprocess.TimeoutExpired):
            ssh.wait(PARTING_S)
            if self._listener is not None:
                self._listener.join(PARTING_S)
        code, host = ssh.poll(), self._host
        lines = [printable(line.strip()) for line in bytes(self._said).splitlines() if line.strip()]
        said = lines[-1][:300] if lines else ""
        if code == 255:
            return NoServer(f"ssh cannot reach {host}: {said or 'it does not say why'}")
        if code in (126, 127):
            return NoServer(
                f"ttmem is not found on {host}; install it there, or name it with --remote-ttmem PATH"
                f" ({said or 'a shell that is not interactive may have another PATH'})"
            )
        if code == 2 and "relay" in " ".join(lines):
            return Refused(
                f"ttmem on {host} is too old to be asked over SSH; install version {__version__}"
            )
        if isinstance(trouble, Refused):
            if "this is not a ttmem stream" in str(trouble):
                return Refused(
                    f"{host} says something before ttmem does: a start-up file of its shell must print nothing"
                    " when the shell is not interactive"
                )
            return Refused(f"{host}: {trouble}")
        if code:
            return TtmemError(f"ttmem on {host} ended with code {code}: {said}")
        if code == 0:
            return NoServer(f"{host} closed the connection")
        return type(trouble)(str(trouble).replace("the server at", "ttmem on"))

    def _remember(self, problem: TtmemError) -> None:
        """A host that answered before is tried again, less and less often; it is said since when it is lost."""
        if not self._met:
            return
        self._lost = self._lost or time.strftime("%H:%M:%S")
        self._problem = type(problem)(f"{problem} (lost since {self._lost})")
        self._pause = min(2 * self._pause or 1.0, LONGEST_PAUSE_S)
        self._again_at = time.monotonic() + self._pause

    def _hang_up(self) -> None:
        ssh, self._ssh = self._ssh, None
        if ssh is None:
            return
        ssh.terminate()
        try:
            ssh.wait(PARTING_S)
        except subprocess.TimeoutExpired:
            ssh.kill()
            ssh.wait()
        if self._listener is not None:
            self._listener.join(PARTING_S)


def remote_command(program: str, socket: str | None, shm: str | None) -> str:
    """For the shell of the other host. `~/` stays, so that this shell finds its user's home."""
    home = program.startswith("~/")
    words = ["relay", *(["--socket", socket] if socket else []), *(["--shm", shm] if shm else [])]
    quoted = shlex.quote(program[2:] if home else program)
    return " ".join([f"~/{quoted}" if home else quoted, *map(shlex.quote, words)])


# -- the other end: `ttmem relay` joins its standard input and output to a server, or answers from shared memory --


def relay(path: str | None = None, shm: str | None = None) -> None:
    """Until the input ends: joined to the server if there is one, else it answers from shared memory."""
    try:
        server = None if shm else _server(path)
        feed = None if server else open_feed(path, shm)
    except TtmemError as problem:
        _write(preamble() + frame(Frame.REFUSED, str(problem).encode()))
        return
    if server is not None:
        _join(server)
    elif feed is not None:
        _answer(feed, lambda: os.read(INPUT, PIECE), _write)


def _server(path: str | None) -> socket.socket | None:
    """None where a server was not asked for by name, and there is none for this user."""
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connect(server, path)
    except (OSError, TtmemError) as problem:
        server.close()
        told = explained(path, problem)
        if path is None and isinstance(told, (NoServer, ClosedToYou)):
            return None
        raise told from problem
    return server


def _join(server: socket.socket) -> None:
    threading.Thread(target=_to_server, args=(server,), daemon=True).start()
    with suppress(OSError):
        while data := server.recv(PIECE):
            _write(data)
    # The other thread waits for input, which may never come.
    os._exit(0)


def _to_server(server: socket.socket) -> None:
    with suppress(OSError):
        while data := os.read(INPUT, PIECE):
            server.sendall(data)
        server.shutdown(socket.SHUT_RDWR)


def _write(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(OUTPUT, view) :]


def _answer(feed: Feed, read: Callable[[], bytes], write: Callable[[bytes], None]) -> None:
    stream = FrameStream("client")
    write(preamble() + json_frame(Frame.WELCOME, {"pid": os.getpid(), "version": __version__}))
    while data := read():
        stream.feed(data)
        try:
            while (taken := stream.take()) is not None:
                kind, held, start, length = taken
                if kind is Frame.QUERY:
                    write(b"".join(answer_frame(_answer_to(feed, held[start : start + length]))))
        except FrameError as problem:
            write(frame(Frame.REFUSED, str(problem).encode()))
            return


def _answer_to(feed: Feed, payload: bytes) -> dict[str, Any]:
    try:
        question = json.loads(payload)
        what, detail = question["what"], question.get("detail") or ()
        if what != "snapshot":
            return {"error": f"there is no query {what!r:.60} without a server"}
        found = feed.read(detail, device=question.get("device"), limit=question.get("limit"))
    except NothingToRead:
        found = idle_host()
    except TtmemError as problem:
        return {"error": str(problem)}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
        return {"error": f"this is no query: {problem!r:.100}"}
    return {"snapshot": to_json(found)}
