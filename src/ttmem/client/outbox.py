"""What callers and the sending thread share.

A caller only packs its event and appends it to `queue`, which is atomic. It therefore needs no lock, may be interrupted
by a finalizer that reports as well or by a signal handler that raises, and is safe across a fork. (With a lock, and the
live set updated by each call, a report took twice as long.) Every few milliseconds the sending thread *absorbs* the
queue: it applies the events in order to the live set and puts them into the backlog, which waits to be sent. Signal
handlers run in the main thread only, so nothing interrupts that. A caller that finds very many events in the queue
waits a little, so nobody reports faster than events are applied.

- Until the first attempt to connect has ended, events go into the backlog: a server that is already running sees
  everything from the first event on, including peaks.
- Not connected: there is no backlog; only the live set is kept.
- Resync: everything alive is listed under the lock, and the backlog starts anew. What was in the backlog is sent first,
  then the list, then the new backlog.
- Backlog full because the server does not read: events are applied but not kept, and counted as dropped. Once the
  server has read what came before them, a resync corrects its accounts.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from threading import get_ident
from time import monotonic, sleep

from ttmem.client.declarations import Declarations
from ttmem.client.devices import TargetCache
from ttmem.client.live import LiveSet

# Events in the queue at which the sender is woken, in far less than 1 % of all calls.
ABSORB_AT = 1024
SLICE = 2048  # events absorbed at once: about a millisecond
SLICES = 8  # absorbed before anything else is done
CROWDED = SLICE * SLICES  # events in the queue at which callers wait
LONGEST_WAIT = 0.05  # seconds; a sender that takes longer is stuck, and the caller absorbs instead
RESTING = 1
NEXT_TRY = 1.0  # seconds between attempts to start a sender


class Outbox:
    """The state of one client in one process; a forked child starts with a new one."""

    def __init__(
        self, capacity: int, live_limit: int, call_sender: Callable[[], None] = lambda: None
    ) -> None:
        self.sender: int | None = None  # its thread id; None if it is not running
        self._call_sender = call_sender  # tries to start it
        self._next_try = 0.0
        self.reporter = os.urandom(
            8
        ).hex()  # lets a server recognise this client when it reconnects
        self.queue: list[bytes] = []
        self.mark = RESTING  # the length of the queue at which `marked` is to be called
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
        self._in_flight = 0  # events taken but not sent yet
        self._streaming = True  # events go into the backlog
        self._newborn = True  # the backlog reaches back to the first event
        self._gap = False  # events are being dropped
        self._settled = False  # the sender has nothing left to send
        self._dropped = 0

    def marked(self) -> None:
        """The queue has reached its mark: the sender is asleep and must be woken, or is overloaded."""
        if self.sender is None:
            self._go_alone()
            return
        self.waker.wake()  # first: if a signal interrupts this call here, the next one repeats it
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
        """There is no sender (yet), so the caller keeps the live set up to date."""
        if monotonic() >= self._next_try:
            self._next_try = monotonic() + NEXT_TRY
            self._call_sender()
        if len(self.queue) >= ABSORB_AT:
            self._absorb_here()
        if self.sender is None:
            self.mark = RESTING  # at each event, until there is one

    def _absorb_here(self) -> None:
        if not self._lock.locked():  # else some thread is at it already, perhaps this one
            with self._lock:
                self._absorb(SLICE)

    def dropped(self) -> int:
        """Events that a connected server did not receive; a resync restores the totals."""
        return self._dropped + self.rejected

    def queued(self) -> int:
        """Events that are waiting or being sent."""
        return len(self.queue) + self._waiting + self._in_flight

    def drained(self) -> bool:
        """Whether everything has been handed to the server's socket."""
        if self._lock.locked():
            return False
        return self._settled and self._streaming and not self.queued()

    def hopeful(self) -> bool:
        """Whether a server is connected, or the first attempt to find one is still under way."""
        return self.connected or self._newborn

    def close(self) -> None:
        """Accepts no more reports: every device becomes unknown."""
        self.closed = True
        self.targets.forget()

    # ---- for the sender ---------------------------------------------------------------------

    def absorb(self) -> bool:
        """Applies what is queued; returns whether there was anything."""
        for turn in range(SLICES):
            with self._lock:
                if not self._absorb(SLICE):
                    return turn > 0
        return True

    def may_rest(self) -> bool:
        """Whether nothing is waiting; if so, the next event wakes the sender."""
        self.mark = RESTING
        return not self.queue

    def connect(self) -> list[bytes]:
        """A server has answered; returns what to send it first."""
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
        """Whether events were dropped and those before them have been taken."""
        return not self._streaming and not self._waiting

    def begin_resync(self) -> tuple[list[bytearray], list[bytes]]:
        """Events to send first, then everything that is alive. New events go into the backlog from now on."""
        with self._lock:
            newborn, self._newborn = self._newborn, False
            if newborn and self._streaming:
                return [], []
            self._streaming, self._settled, self._gap = True, False, False
            return self._take_backlog(), self.live.alive()

    def disconnect(self) -> None:
        """The server is gone and so is the backlog; the next server is sent everything that is alive."""
        with self._lock:
            self.connected = self._streaming = self._settled = self._gap = self._newborn = False
            self._waiting, self._in_flight, self._backlog = 0, 0, []
            self.declarations.stop()

    def _absorb(self, most: int) -> bool:
        taken = 0
        try:
            events = self.queue[:most]
            count = len(events)
            del self.queue[:count]  # callers may have appended in the meantime
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
        except BaseException:  # out of memory, or a signal in a caller that absorbs
            self._streaming, self._gap = False, True
            self._dropped += taken
            raise


class Waker:
    """Ends another thread's poll() through an eventfd.

    It stays open as long as this object exists, so that a late wake() cannot hit another file. If the process has run
    out of file descriptors, opening it is tried again at the next poll.
    """

    def __init__(self) -> None:
        self._file: int | None = None

    def fileno(self) -> int | None:
        """For poll(); None if it cannot be opened now."""
        if self._file is None:
            try:
                self._file = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
            except OSError:
                return None
            weakref.finalize(self, os.close, self._file).atexit = False
        return self._file

    def wake(self) -> None:
        """Ends the poll() under way, or else the next one."""
        if self._file is None:
            return  # nobody polls
        try:
            os.eventfd_write(self._file, 1)
        except BlockingIOError:
            pass  # its counter is at the maximum

    def clear(self) -> None:
        if self._file is None:
            return
        try:
            os.eventfd_read(self._file)
        except BlockingIOError:
            pass
