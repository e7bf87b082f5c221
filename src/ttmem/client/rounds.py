"""How the sending thread waits: in short rounds, after each of which the outbox is absorbed."""

from __future__ import annotations

import select

from ttmem.client.outbox import Outbox

ROUND = 0.01  # seconds in which events gather
ROUNDS_BEFORE_REST = 10  # empty ones; then the thread sleeps until an event wakes it
LONGEST_REST = 2.0  # seconds; a signal may have ended the call that would have woken it


class Rounds:
    """Waits for a socket, or for nothing but time."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._quiet = 0  # empty rounds

    def wait(self, longest: float | None, file: int | None = None) -> bool:
        """One round, or one rest of at most so many seconds; True if the file can be read."""
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
        """What is done in between."""
        self._quiet = 0 if self._outbox.absorb() else self._quiet + 1

    def _milliseconds(self, longest: float | None, can_be_woken: bool) -> float:
        if can_be_woken and self._quiet > ROUNDS_BEFORE_REST and self._outbox.may_rest():
            return 1000 * (LONGEST_REST if longest is None else min(LONGEST_REST, longest))
        return 1000 * (ROUND if longest is None else min(ROUND, longest))
