"""Queries to a server, as monitors and tables make them."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from ttmem.client.connection import connect, explained, frames_from, opening, text_of
from ttmem.errors import Refused, TtmemError
from ttmem.text import printable
from ttmem.wire.frames import (
    HEADER,
    MAX_ANSWER_PAYLOAD,
    Frame,
    FrameStream,
    json_frame,
    parse_answer,
)
from ttmem.wire.socket_path import socket_path

ROLE = "monitor"
RECEIVE = 1 << 20
PAUSE = 0.01  # seconds before another attempt to connect


class ServerConnection:
    """A connection for queries. No wait for the server exceeds `timeout` seconds.

    `through` is connected already, with a timeout of its own; `path` is then a name for it.
    """

    def __init__(
        self,
        path: str | None = None,
        timeout: float = 5.0,
        *,
        through: socket.socket | None = None,
    ) -> None:
        self.path = socket_path(path)
        self._socket = through or socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            if through is None:
                self._socket.settimeout(timeout)
                self._connect(path, timeout)
            self._socket.sendall(opening(ROLE), socket.MSG_NOSIGNAL)
            self._wait_for_welcome()
        except (OSError, EOFError) as error:
            self._socket.close()
            raise explained(self.path, error) from error
        except BaseException:
            self._socket.close()
            raise

    def _connect(self, path: str | None, timeout: float) -> None:
        end = time.monotonic() + timeout
        while True:
            try:
                return connect(self._socket, path)
            except BlockingIOError:  # the server's queue of new connections is full
                if time.monotonic() >= end:
                    raise
                time.sleep(PAUSE)

    def __enter__(self) -> ServerConnection:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def query(self, what: str, **arguments: Any) -> tuple[dict[str, Any], dict[str, memoryview]]:
        """The answer's document and its attachments."""
        try:
            self._send(what, arguments)
            payload = self._read_answer()
        except (OSError, EOFError) as error:
            raise explained(self.path, error) from error
        try:
            document, attachments = parse_answer(memoryview(payload))
        except ValueError as error:
            raise self._nonsense(str(error)) from error
        if "error" in document:
            said = printable(str(document["error"])[:1000])
            raise TtmemError(f"the server at {self.path} says: {said}")
        return document, attachments

    def record(self, ring: bool = False) -> None:
        """Asks for everything that the server sees; `chunk` has it. `ring`: only the last files are kept."""
        self.query("record", ring=ring)

    def about_recording(self, what: str) -> None:
        """`end`: asks for the last chunks. `again`: for a FILE chunk and everything that is needed to read on."""
        try:
            self._send("record", {what: True})
        except OSError as error:
            raise explained(self.path, error) from error

    def chunk(self, seconds: float) -> bytes | None:
        """The next chunk of a recording; None if none has come in that time; nothing after the last one."""
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        if not poll.poll(1000 * seconds):
            return None
        try:
            kind, payload = self._read_frame()
        except (OSError, EOFError) as error:
            raise explained(self.path, error) from error
        return bytes(payload) if kind == Frame.CHUNK else b""

    def _send(self, what: str, arguments: Mapping[str, Any]) -> None:
        question = json_frame(Frame.QUERY, {"what": what, **arguments})
        self._socket.sendall(question, socket.MSG_NOSIGNAL)

    def _wait_for_welcome(self) -> None:
        stream = FrameStream("server", RECEIVE)
        while all(kind is not Frame.WELCOME for kind, _ in frames_from(stream, self.path)):
            stream.feed(self._receive(RECEIVE))

    def _read_answer(self) -> bytearray:
        while True:
            kind, payload = self._read_frame()
            if kind == Frame.ANSWER:
                return payload

    def _read_frame(self) -> tuple[int, bytearray]:
        kind, length = HEADER.unpack(self._read(HEADER.size))
        if length > MAX_ANSWER_PAYLOAD:
            raise self._nonsense(f"a frame of {length:,} bytes")
        payload = self._read(length)
        if kind == Frame.REFUSED:
            raise Refused(text_of(payload))
        return kind, payload

    def _read(self, length: int) -> bytearray:
        data = bytearray()  # grows with what arrives, not with what was announced
        while len(data) < length:
            data += self._receive(min(RECEIVE, length - len(data)))
        return data

    def _receive(self, most: int) -> bytes:
        data = self._socket.recv(most)
        if not data:
            raise EOFError
        return data

    def _nonsense(self, what: str) -> TtmemError:
        return TtmemError(f"the server at {self.path} sent an invalid answer: {what}")
