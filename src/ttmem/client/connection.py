"""One connection of the sending thread to a server."""

from __future__ import annotations

import select
import socket
from time import monotonic

from ttmem.client.greeting import opening, welcomed
from ttmem.client.waker import Waker
from ttmem.wire.frame_stream import FrameStream

CONNECT_TIME = 5.0
ANSWER_TIME = 60.0  # for a server to welcome us; one that is stopped may take long
SEND_BUFFER = 1 << 20
LONGEST_FRAME = 1 << 16  # a server tells a reporting client only WELCOME and REFUSED


class Connection:
    """A connected socket whose waits end when the waker is woken.

    Sends block, and may: the thread has nothing else to do, and `abort` ends them. A socket that
    does not block takes a large batch in pieces, and after each piece a busy application lets the
    thread wait 5 ms for the interpreter lock.
    """

    def __init__(self, path: str, waker: Waker) -> None:
        self._path = path
        self._waker = waker
        self._stream = FrameStream("server", LONGEST_FRAME)
        self._welcome = False
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
            self._socket.settimeout(CONNECT_TIME)
            self._socket.connect(path)
            self._socket.settimeout(None)
        except BaseException:
            self._socket.close()
            raise
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)
        self._poll.register(waker.fileno(), select.POLLIN)

    def greet(self, role: str) -> None:
        """Introduces us and waits for the welcome."""
        self.send(opening(role))
        deadline = monotonic() + ANSWER_TIME
        while not self._welcome:
            if monotonic() > deadline:
                raise TimeoutError(f"the server at {self._path} does not answer")
            self.wait(ANSWER_TIME)

    def send(self, data: bytes | bytearray) -> None:
        """Sends all of it; OSError if the server is gone, `Refused` if it said why."""
        try:
            self._socket.sendall(data, socket.MSG_NOSIGNAL)
        except OSError:
            self._receive(socket.MSG_DONTWAIT)
            raise

    def wait(self, seconds: float | None) -> None:
        """Waits for the waker, or for words of the server."""
        ready = dict(self._poll.poll(None if seconds is None else seconds * 1000))
        if self._waker.fileno() in ready:
            self._waker.clear()
        if self._socket.fileno() in ready:
            self._receive(0)

    def _receive(self, flags: int) -> None:
        data = self._socket.recv(LONGEST_FRAME, flags)
        if not data:
            raise ConnectionResetError(f"the server at {self._path} closed the connection")
        self._stream.feed(data)
        self._welcome |= welcomed(self._stream, self._path)

    def abort(self) -> None:
        """Ends what another thread is doing with the connection."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # it is closed already

    def close(self) -> None:
        """Closes the socket of this process; the other end of a fork keeps its own."""
        self._socket.close()
