"""The thread that talks to servers, so that callers never have to."""

from __future__ import annotations

import logging
import select
import socket
import threading
from struct import Struct
from time import monotonic

from ttmem.client.connection import connect, explained, frames_from, opening
from ttmem.client.outbox import Outbox
from ttmem.client.records import resent
from ttmem.clock import log_line
from ttmem.errors import Refused
from ttmem.wire.frames import HEADER, LOST, Frame, FrameStream, frame
from ttmem.wire.socket_path import socket_path

log = logging.getLogger("ttmem.client")

ROLE = "application"
FIRST_DELAY, LONGEST_DELAY = 0.1, 2.0  # seconds between attempts to connect
DELAY_AFTER_REFUSAL = 60.0

CONNECT_TIME = 5.0
ANSWER_TIME = 60.0  # for the server's welcome; a stopped server may take long
SEND_BUFFER = 1 << 20
LONGEST_FRAME = 1 << 16  # a server sends only short messages to a reporting client
_TIMEVAL = Struct("ll")

# 2 MiB; a server accepts 4. After each send, a busy application makes the thread wait 5 ms for the
# interpreter, so fewer and larger frames carry more.
SLICES_PER_FRAME = 16
RECORDS_PER_FRAME = 8192  # of a resync: half a millisecond's work
# So many times its duration, so that an overloaded client does not resync all the time.
PAUSE_AFTER_RESYNC = 4

ROUND = 0.01  # seconds in which events accumulate
ROUNDS_BEFORE_REST = 10  # empty ones; then the thread sleeps until an event wakes it
LONGEST_REST = 2.0  # seconds; a signal may have interrupted the call that would have woken it


class Sender(threading.Thread):
    """Connects, sends what is in the outbox, reconnects; ends with the interpreter."""

    def __init__(self, outbox: Outbox, path: str | None) -> None:
        super().__init__(name="ttmem-client", daemon=True)
        self._outbox = outbox
        self._path = path
        self._rounds = _Rounds(outbox)
        self._stopping = False
        self._connection: _Connection | None = None
        self._delay = FIRST_DELAY
        self._logged: str | None = None

    def run(self) -> None:
        self._outbox.sender = threading.get_ident()
        try:
            while not self._stopping:
                self._pause(self._try_once())
        finally:
            self._outbox.sender = None

    def stop(self) -> None:
        """Ends the thread soon, whatever it is doing."""
        self._stopping = True
        self._outbox.waker.wake()
        if self._connection is not None:
            self._connection.abort()

    def abandon(self) -> None:
        """In a forked child, where this thread does not run: closes the copy of the socket."""
        if self._connection is not None:
            self._connection.close()

    def _try_once(self) -> float:
        """One connection from beginning to end; returns how many seconds to wait afterwards."""
        try:
            self._converse()
        except Refused as refusal:
            self._log(str(refusal))
            return DELAY_AFTER_REFUSAL
        except Exception as error:  # whatever it is, it must not reach the application
            self._log(str(explained(self._path, error)))
        finally:
            self._outbox.disconnect()
            if self._connection is not None:
                self._connection.close()
        delay, self._delay = self._delay, min(2 * self._delay, LONGEST_DELAY)
        return delay

    def _converse(self) -> None:
        self._connection = _Connection(self._path, self._rounds)
        if not self._stopping:
            self._connection.greet(ROLE, self._outbox.reporter)
            self._delay, self._logged = FIRST_DELAY, None
            _Conversation(self._outbox, self._connection).run()

    def _pause(self, seconds: float) -> None:
        deadline = monotonic() + seconds
        while not self._stopping and (rest := deadline - monotonic()) > 0:
            self._rounds.wait(rest)

    def _log(self, message: str) -> None:
        """Once for each reason, not each time a server turns out to be still absent."""
        if message != self._logged and not self._stopping:
            self._logged = message
            log_line(log.warning, "ttmem: %s", message)


class _Rounds:
    """Waits in short rounds, after each of which the outbox absorbs its queue."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._quiet = 0  # empty rounds

    def wait(self, longest: float | None, file: int | None = None) -> bool:
        """One round, or one rest of at most `longest` seconds. Returns whether the file can be read."""
        poll = select.poll()
        waker = self._outbox.waker.fileno()
        for each in (waker, file):
            if each is not None:
                poll.register(each, select.POLLIN)
        ready = dict(poll.poll(self._milliseconds(longest, waker is not None)))
        if waker in ready:
            self._outbox.waker.clear()
        self.absorb()
        return file in ready

    def absorb(self) -> None:
        self._quiet = 0 if self._outbox.absorb() else self._quiet + 1

    def _milliseconds(self, longest: float | None, can_be_woken: bool) -> float:
        if can_be_woken and self._quiet > ROUNDS_BEFORE_REST and self._outbox.may_rest():
            return 1000 * (LONGEST_REST if longest is None else min(LONGEST_REST, longest))
        return 1000 * (ROUND if longest is None else min(ROUND, longest))


class _Connection:
    """A connected socket.

    A send blocks for at most one round; then the outbox absorbs its queue. (It does not return at once, because a
    busy application makes the thread wait 5 ms for the interpreter after each piece.)
    """

    def __init__(self, given: str | None, rounds: _Rounds) -> None:
        self._given = given
        self._path = socket_path(given)
        self._rounds = rounds
        self._stream = FrameStream("server", LONGEST_FRAME)
        self._welcome = False
        self.resend_wanted = False  # the server has lost some of what it was sent
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
        """Sends HELLO and waits for the welcome."""
        self.send(opening(role, reporter))
        deadline = monotonic() + ANSWER_TIME
        while not self._welcome:
            rest = deadline - monotonic()
            if rest <= 0:
                raise TimeoutError(f"the server at {self._path} does not answer")
            self.wait(rest)

    def send(self, data: bytes | bytearray) -> None:
        """Sends all of it. Raises OSError if the server is gone, `Refused` if it said why."""
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
        """Waits for one round, or until the server sends something."""
        if self._rounds.wait(longest, self._socket.fileno()):
            self._receive(0)

    def _receive(self, flags: int) -> None:
        data = self._socket.recv(LONGEST_FRAME, flags)
        if not data:
            raise ConnectionResetError(f"the server at {self._path} closed the connection")
        self._stream.feed(data)
        for kind, text in frames_from(self._stream, self._path):
            if kind is Frame.WELCOME:
                self._welcome = True
            elif kind is Frame.RESEND:
                self.resend_wanted = True
            elif kind is Frame.DECLINED and text not in self._declined:
                self._declined.add(text)
                log_line(log.warning, "ttmem: the server declined a declaration: %s", text)

    def abort(self) -> None:
        """Interrupts whatever another thread is doing with the connection."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # it is closed already

    def close(self) -> None:
        """Closes the socket of this process only; after a fork, the other process keeps its own."""
        self._socket.close()


class _Conversation:
    """Sends declarations, a resync, then events as they come, until an error ends it."""

    def __init__(self, outbox: Outbox, connection: _Connection) -> None:
        self._outbox = outbox
        self._connection = connection
        self._reported_losses = (0, 0)
        self._next_resync = 0.0

    def run(self) -> None:
        """Ends only with an exception: the server is gone, or the client is closed."""
        self._connection.send(b"".join(self._outbox.connect()))
        self._resync()
        while True:
            self._report_losses()
            self._send_events(self._outbox.take())
            self._outbox.delivered()
            wanted = self._outbox.must_resync() or self._connection.resend_wanted
            pause = self._next_resync - monotonic() if wanted else None
            if pause is not None and pause <= 0:
                self._resync()
            else:
                self._connection.wait(pause)

    def _send_events(self, slices: list[bytearray]) -> None:
        self._connection.send(b"".join(self._outbox.declarations.take_unsent()))
        for start in range(0, len(slices), SLICES_PER_FRAME):
            part = slices[start : start + SLICES_PER_FRAME]
            header = HEADER.pack(Frame.EVENTS, sum(map(len, part)))
            self._connection.send(b"".join([header, *part]))

    def _resync(self) -> None:
        """Sends everything that is alive; `ttmem.client.outbox` explains why the order is right."""
        begun = monotonic()
        if self._connection.resend_wanted:
            self._connection.resend_wanted = False
            self._connection.send(b"".join(self._outbox.connect()))
        before, records = self._outbox.begin_resync()
        self._send_events(before)
        self._outbox.delivered()
        self._connection.send(frame(Frame.RESYNC_BEGIN))
        for start in range(0, len(records), RECORDS_PER_FRAME):
            self._send_events([resent(records[start : start + RECORDS_PER_FRAME])])
        self._connection.send(frame(Frame.RESYNC_END))
        self._outbox.resyncs += 1
        self._next_resync = monotonic() + PAUSE_AFTER_RESYNC * (monotonic() - begun)

    def _report_losses(self) -> None:
        losses = (self._outbox.dropped(), self._outbox.live.limit.overflow)
        if losses != self._reported_losses:
            self._connection.send(frame(Frame.LOST, LOST.pack(*losses)))
            self._reported_losses = losses
