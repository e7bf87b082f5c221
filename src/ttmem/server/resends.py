"""Asks clients to tell everything again, once there is room for what was turned away."""

from __future__ import annotations

import time

from ttmem.ledger import Books
from ttmem.server.process_table import ProcessTable
from ttmem.sources.socket.peer import Peer
from ttmem.wire.frames import Frame

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0  # seconds until a client is asked once more


class Resends:
    """Each client is asked by itself, and the less often the longer it does not help."""

    def __init__(self, books: Books, processes: ProcessTable) -> None:
        self._books = books
        self._processes = processes
        self._asked: dict[int, tuple[float, float]] = {}  # by account: when, and the pause then

    def ask(self) -> list[Peer]:
        """Once a second; whom it has spoken to."""
        now = time.monotonic()
        told: list[Peer] = []
        asked, self._asked = self._asked, {}
        for account, why in self._books.incomplete():
            when, pause = asked.get(account.index, (now, 0.0))
            if now - when >= pause:
                peers = [p for p in self._processes.peers_of(account) if p.tell(Frame.RESEND, why)]
                told += peers
                when, pause = now, min(max(FIRST_PAUSE, 2 * pause), LONGEST_PAUSE)
            self._asked[account.index] = when, pause
        return told
