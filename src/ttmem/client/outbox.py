"""What callers and the sending thread share.

A caller only packs its event and appends it to `queue`: one atomic step, so it needs no lock, may
be interrupted by a finalizer that reports too, or by a signal whose handler raises, and cannot be
surprised by a fork. (With a lock, and the live set updated by each call, a report took twice as
long.) Every few milliseconds the sending thread *absorbs* the queue: it applies the events, in
their order, to the live set, and puts them into the backlog, which waits to be sent. Handlers of
signals run in the main thread only, so nothing interrupts that. A caller that finds very many
events in the queue waits a little: so nobody reports faster than events are applied.

- Until the first try to connect has ended, events go into the backlog: a server that is there sees
  everything from the first event on, peaks too.
- Not connected: there is no backlog, only the live set is kept.
- Resync: under the lock all that is alive is listed, and the backlog starts anew. What was in the
  backlog goes out first, then the list, then the new backlog.
- Backlog full, because the server does not read: events are applied but not kept, and counted as
  dropped. When the server has read what was before them, a resync heals its accounts.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from threading import get_ident
from time import monotonic, sleep

from ttmem.client.declarations import Declarations
from ttmem.client.live_set import LiveSet
from ttmem.client.target_cache import TargetCache
from ttmem.client.waker import Waker

ABSORB_AT = 1024  # events in the queue: then the sender is called, in well below 1 % of all calls
SLICE = 2048  # events that are absorbed at once: about a millisecond
SLICES = 8  # that are absorbed before anything else is done
CROWDED = SLICE * SLICES  # events in the queue: then callers wait
LONGEST_WAIT = 0.05  # seconds; a sender that takes longer is stuck, and the caller absorbs
RESTING = 1
NEXT_TRY = 1.0  # seconds between tries to start a sender


class Outbox:
    """The state of one client in one process; a forked child starts with a new one."""

    def __init__(
        self, capacity: int, live_limit: int, call_sender: Callable[[], None] = lambda: None
    ) -> None:
        self.sender: int | None = None  # its thread; None: there is none
        self._call_sender = call_sender  # tries to start it
        self._next_try = 0.0
        self.reporter = os.urandom(8).hex()  # tells a server that this is the same client again
        self.queue: list[bytes] = []
        self.mark = RESTING  # the length of the queue at which `marked` wants to be called
        self.targets = TargetCache()
        self.declarations = Declarations()
        self.live = LiveSet(live_limit, self.declarations.core_counts)
        self.waker = Waker()
        self.connected = self.closed = False
        self.sent = self.resyncs = self.rejected = 0
        self._lock = threading.Lock()
        self._capacity = capacity
        self._backlog: list[bytearray] = []
        self._waiting = 0  # events in the backlog
        self._in_flight = 0  # events that were taken and not sent yet
        self._streaming = True  # events go into the backlog
        self._newborn = True  # the backlog goes back to the first event
        self._gap = False  # events are dropped
        self._settled = False  # the sender has nothing in hand
        self._dropped = 0

    def marked(self) -> None:
        """The queue has reached its mark: the sender rests and is called, or has too much to do."""
        if self.sender is None:
            self._go_alone()
            return
        self.waker.wake()  # first: if a signal ends this call here, the next one does it again
        self.mark = max(ABSORB_AT, len(self.queue) + ABSORB_AT)
        if len(self.queue) >= CROWDED and self.sender != get_ident():
            self._wait_for_sender()

    def _wait_for_sender(self) -> None:
        deadline = monotonic() + LONGEST_WAIT
        while len(self.queue) >= CROWDED:
            if monotonic() >= deadline:
                self._absorb_here()
                return
            sleep(0.001)

    def _go_alone(self) -> None:
        """There is no sender (yet): the live set must do without one."""
        if monotonic() >= self._next_try:
            self._next_try = monotonic() + NEXT_TRY
            self._call_sender()
        if len(self.queue) >= ABSORB_AT:
            self._absorb_here()
        if self.sender is None:
            self.mark = RESTING  # with each event, until there is one

    def _absorb_here(self) -> None:
        if not self._lock.locked():  # else somebody is at it, perhaps this very thread
            with self._lock:
                self._absorb(SLICE)

    def dropped(self) -> int:
        """Events that a server which was there did not see; their effect on the sums is healed."""
        return self._dropped + self.rejected

    def queued(self) -> int:
        """Events that wait, or are on their way."""
        return len(self.queue) + self._waiting + self._in_flight

    def drained(self) -> bool:
        """True if all there is to say has been handed to the server's socket."""
        if self._lock.locked():
            return False
        return self._settled and self._streaming and not self.queued()

    def hopeful(self) -> bool:
        """True while a server listens, or the first try to find one has not ended."""
        return self.connected or self._newborn

    def close(self) -> None:
        """Nothing more is accepted: no device is known any more."""
        self.closed = True
        self.targets.forget()

    # ---- for the sender ---------------------------------------------------------------------

    def absorb(self) -> bool:
        """Applies what is queued; True if there was something."""
        for turn in range(SLICES):
            with self._lock:
                if not self._absorb(SLICE):
                    return turn > 0
        return True

    def may_rest(self) -> bool:
        """True if nothing waits; then the next event wakes the sender."""
        self.mark = RESTING
        return not self.queue

    def connect(self) -> list[bytes]:
        """A server has answered; returns what it must be told first."""
        self.connected = True
        return self.declarations.start()

    def take(self) -> list[bytearray]:
        """Events to be sent, after `declarations.take_unsent`."""
        with self._lock:
            self._settled = not self._backlog
            return self._take_backlog()

    def _take_backlog(self) -> list[bytearray]:
        taken, self._backlog = self._backlog, []
        self._in_flight, self._waiting = self._waiting, 0
        return taken

    def delivered(self) -> None:
        """What was taken has been sent."""
        with self._lock:
            self.sent += self._in_flight
            self._in_flight = 0

    def must_resync(self) -> bool:
        """True if events were dropped, and those before them have been taken."""
        return not self._streaming and not self._waiting

    def begin_resync(self) -> tuple[list[bytearray], list[bytes]]:
        """Events to be sent before, and all that is alive; what happens from now on goes into the backlog."""
        with self._lock:
            newborn, self._newborn = self._newborn, False
            if newborn and self._streaming:
                return [], []
            self._streaming, self._settled, self._gap = True, False, False
            return self._take_backlog(), self.live.alive()

    def disconnect(self) -> None:
        """The server is gone, and what waited with it: the next one is told all that is alive."""
        with self._lock:
            self.connected = self._streaming = self._settled = self._gap = self._newborn = False
            self._waiting, self._in_flight, self._backlog = 0, 0, []
            self.declarations.stop()

    def _absorb(self, most: int) -> bool:
        taken = 0
        try:
            events = self.queue[:most]
            count = len(events)
            del self.queue[:count]  # callers may have appended meanwhile
            taken = count
            self.mark = ABSORB_AT
            if not events:
                return False
            together = self.live.apply(events)
            if self._streaming and count + self._waiting + self._in_flight > self._capacity:
                self._streaming, self._gap = False, True
            if self._streaming:
                self._backlog.append(together)
                self._waiting += count
            elif self._gap:
                self._dropped += count
            return True
        except BaseException:  # out of memory, or a signal where no sender could be started
            self._streaming, self._gap = False, True
            self._dropped += taken
            raise
