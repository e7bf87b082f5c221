"""The thread that talks to servers, so that callers never do."""

from __future__ import annotations

import logging
import threading
from time import monotonic

from ttmem.client.connection import Connection
from ttmem.client.conversation import Conversation
from ttmem.client.outbox import Outbox
from ttmem.client.rounds import Rounds
from ttmem.client.server_socket import trouble
from ttmem.errors import Refused

log = logging.getLogger("ttmem.client")

ROLE = "application"
FIRST_DELAY, LONGEST_DELAY = 0.1, 2.0  # seconds between tries to connect
DELAY_AFTER_REFUSAL = 60.0


class Sender(threading.Thread):
    """Connects, lets the outbox be told, reconnects; ends with the interpreter."""

    def __init__(self, outbox: Outbox, path: str | None) -> None:
        super().__init__(name="ttmem-client", daemon=True)
        self._outbox = outbox
        self._path = path
        self._rounds = Rounds(outbox)
        self._stopping = False
        self._connection: Connection | None = None
        self._delay = FIRST_DELAY
        self._said: str | None = None

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
        """One connection from beginning to end; returns the seconds to wait after it."""
        try:
            self._converse()
        except Refused as refusal:
            self._say(str(refusal))
            return DELAY_AFTER_REFUSAL
        except Exception as error:  # whatever it is, it must not reach the application
            self._say(str(trouble(self._path, error)))
        finally:
            self._outbox.disconnect()
            if self._connection is not None:
                self._connection.close()
        delay, self._delay = self._delay, min(2 * self._delay, LONGEST_DELAY)
        return delay

    def _converse(self) -> None:
        self._connection = Connection(self._path, self._rounds)
        if not self._stopping:
            self._connection.greet(ROLE, self._outbox.reporter)
            self._delay, self._said = FIRST_DELAY, None
            Conversation(self._outbox, self._connection).run()

    def _pause(self, seconds: float) -> None:
        deadline = monotonic() + seconds
        while not self._stopping and (rest := deadline - monotonic()) > 0:
            self._rounds.wait(rest)

    def _say(self, sentence: str) -> None:
        """Once for each reason: that a server stays away is no news."""
        if sentence != self._said and not self._stopping:
            self._said = sentence
            log.warning("ttmem: %s", sentence)
