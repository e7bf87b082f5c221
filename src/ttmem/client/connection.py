"""One connection of the sending thread to a server."""

from __future__ import annotations

import logging
import socket
from struct import Struct
from time import monotonic

from ttmem.client.greeting import heard, opening
from ttmem.client.rounds import ROUND, Rounds
from ttmem.client.server_socket import connect
from ttmem.wire.frame_stream import FrameStream
from ttmem.wire.frames import Frame
from ttmem.wire.socket_path import socket_path

log = logging.getLogger("ttmem.client")

CONNECT_TIME = 5.0
ANSWER_TIME = 60.0  # for a server to welcome us; one that is stopped may take long
SEND_BUFFER = 1 << 20
LONGEST_FRAME = 1 << 16  # a server tells a reporting client only short sentences
_TIMEVAL = Struct("ll")


class Connection:
    """A connected socket.

    A send blocks for at most one round, then the outbox is absorbed. (It does not return at once,
    because after each piece a busy application lets the thread wait 5 ms for the interpreter.)
    """

    def __init__(self, given: str | None, rounds: Rounds) -> None:
        self._given = given
        self._path = socket_path(given)
        self._rounds = rounds
        self._stream = FrameStream("server", LONGEST_FRAME)
        self._welcome = False
        self.resend_wanted = False  # the server has lost some of what it was told
        self._declined: set[str] = set()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._connect()
        except BaseException:
            self._socket.close()
            raise

    def _connect(self) -> None:
        one_round = _TIMEVAL.pack(0, int(ROUND * 1_000_000))
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, one_round)
        self._socket.settimeout(CONNECT_TIME)
        connect(self._socket, self._given)
        self._socket.settimeout(None)

    def greet(self, role: str, reporter: str) -> None:
        """Introduces us and waits for the welcome."""
        self.send(opening(role, reporter))
        deadline = monotonic() + ANSWER_TIME
        while not self._welcome:
            rest = deadline - monotonic()
            if rest <= 0:
                raise TimeoutError(f"the server at {self._path} does not answer")
            self.wait(rest)

    def send(self, data: bytes | bytearray) -> None:
        """Sends all of it; OSError if the server is gone, `Refused` if it said why."""
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[self._socket.send(rest, socket.MSG_NOSIGNAL) :]
            except BlockingIOError:
                pass  # a round has passed
            except OSError:
                self._receive(socket.MSG_DONTWAIT)
                raise
            if rest:
                self._rounds.absorb()

    def wait(self, longest: float | None = None) -> None:
        """Waits for one round, or until the server says something."""
        if self._rounds.wait(longest, self._socket.fileno()):
            self._receive(0)

    def _receive(self, flags: int) -> None:
        data = self._socket.recv(LONGEST_FRAME, flags)
        if not data:
            raise ConnectionResetError(f"the server at {self._path} closed the connection")
        self._stream.feed(data)
        for kind, sentence in heard(self._stream, self._path):
            if kind is Frame.WELCOME:
                self._welcome = True
            elif kind is Frame.RESEND:
                self.resend_wanted = True
            elif kind is Frame.DECLINED and sentence not in self._declined:
                self._declined.add(sentence)
                log.warning("ttmem: the server declined a declaration: %s", sentence)

    def abort(self) -> None:
        """Ends what another thread is doing with the connection."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # it is closed already

    def close(self) -> None:
        """Closes the socket of this process; after a fork, the other one keeps its own."""
        self._socket.close()
