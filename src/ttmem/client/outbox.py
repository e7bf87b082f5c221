"""What callers and the sending thread share: the queue of events and the live set, under one lock.

A caller applies its event to the live set and queues it in one hold of the lock, so the stream and
the live set agree. It queues only in lanes that are *streaming*: whose state the server has been
sent, or will have been sent before this event.

- Not connected: no lane streams, nothing is queued, only the live set is kept.
- Resync: lane by lane the state is captured, in a short hold of the lock, and the lane streams from
  then on. The states go out first, then what was queued meanwhile.
- Queue full: no lane streams any more. What is queued goes out when the server reads again, then a
  resync heals the accounts. The events that were not queued are counted as dropped.

The lock is reentrant: garbage collection can run a finalizer, which frees a buffer and reports it,
in the middle of another report of the same thread.
"""

from __future__ import annotations

import sys
import threading
import weakref
from typing import Any, TypeAlias

from ttmem.client.declarations import Declarations
from ttmem.client.devices import Device, MeshDevice
from ttmem.client.live_set import DeviceAccount, Lane, LiveSet
from ttmem.client.waker import Waker

WAKE_AT = 2048  # events that wake the sender at once; fewer wait for its next round


MOST_TARGETS = 1024  # devices and meshes in either cache

Accounts: TypeAlias = tuple[DeviceAccount, ...]


class Outbox:
    """The state of one client in one process; a forked child starts with a new one."""

    def __init__(self, capacity: int, live_limit: int) -> None:
        self.lock = threading.RLock()
        self.waker = Waker()
        self.live = LiveSet(live_limit)
        self.room = self.live.room
        self.declarations = Declarations()
        self.targets: dict[object, Accounts] = {}  # by device; a cache
        self.foreign: dict[int, tuple[weakref.ref[Any], Accounts]] = {}  # by id() of the device
        self.queue: list[bytes] = []
        self.mark = sys.maxsize  # the length of the queue at which `marked` wants to be called
        self.unsent = 0  # events that were not queued
        self.connected = self.streaming = self.closed = False
        self.sent = self.resyncs = 0
        self._capacity = capacity
        self._in_flight = 0  # events that the sender has taken and not sent yet
        self._settled = False  # the sender has nothing in hand
        self._dropped = 0
        self._gap_since: int | None = None  # `unsent` when the queue was full

    def marked(self) -> None:
        """The queue has reached its mark: the sender is woken, or the queue is full."""
        with self.lock:
            if len(self.queue) < self.mark:
                return  # the sender took it in between
            limit = self._capacity - self._in_flight
            if len(self.queue) >= limit:
                self._stop_streaming()
                if self._gap_since is None:
                    self._gap_since = self.unsent
                return
            self.mark = limit
        self.waker.wake()

    def remember(self, device: object, accounts: Accounts) -> None:
        """Keeps in a cache what a device means; objects of others are not kept alive by it."""
        with self.lock:
            if isinstance(device, (int, Device, MeshDevice)):
                _make_room(self.targets)
                self.targets[device] = accounts
                return
            try:
                reference = weakref.ref(device)
            except TypeError:
                return
            _make_room(self.foreign)
            self.foreign[id(device)] = (reference, accounts)

    def reject(self) -> None:
        """Counts an event that fits into no record."""
        with self.lock:
            self._dropped += 1

    def dropped(self) -> int:
        """Events that the server never sees; what they did to the accounts is healed."""
        with self.lock:
            gap = 0 if self._gap_since is None else self.unsent - self._gap_since
            return self._dropped + gap

    def queued(self) -> int:
        """Events that wait, or are on their way."""
        with self.lock:
            return len(self.queue) + self._in_flight

    def drained(self) -> bool:
        """True if all there is to say has been handed to the server's socket."""
        with self.lock:
            return self._settled and self.streaming and not self.queue

    def close(self) -> None:
        """Nothing more is accepted."""
        with self.lock:
            self.closed = True
            self.targets.clear()
            self.foreign.clear()

    # ---- for the sender ---------------------------------------------------------------------

    def connect(self) -> list[bytes]:
        """A server has answered; returns what it must be told first."""
        with self.lock:
            self.connected = True
            return self.declarations.start()

    def take(self) -> tuple[list[bytes], list[bytes]]:
        """(declarations, events), to be sent in this order; those taken before have been sent."""
        with self.lock:
            self.sent += self._in_flight
            events, self.queue = self.queue, []
            declarations = self.declarations.take_unsent()
            self._in_flight = len(events)
            self._settled = not events and not declarations
            if self.streaming:
                self.mark = min(WAKE_AT, self._capacity - self._in_flight)
            return declarations, events

    def may_rest(self) -> bool:
        """True if there is nothing to do; then the next event wakes the sender."""
        with self.lock:
            if self.queue or not self.streaming:
                return False
            self.mark = 1
            return True

    def must_resync(self) -> bool:
        """True if events were dropped, and those before them have been sent."""
        with self.lock:
            return not self.streaming and not self.queue

    def begin_resync(self) -> list[Lane]:
        """The lanes, to be captured one after the other."""
        with self.lock:
            self.streaming, self._settled = True, False
            self.mark = min(WAKE_AT, self._capacity)
            return self.live.lanes()

    def capture(self, lane: Lane) -> list[bytes]:
        """The state of a lane, which streams from this moment on."""
        with self.lock:
            while True:
                before = self.unsent
                try:
                    records = lane.alive()
                    lane.streaming = self.streaming
                    if self.unsent == before:
                        return records
                except RuntimeError:
                    pass  # the lane changed while it was read
                lane.streaming = False  # a finalizer in this thread reported something: again

    def end_resync(self) -> None:
        """The states have been sent."""
        with self.lock:
            self.resyncs += 1
            self._count_gap()
            if not self.streaming:
                self._gap_since = self.unsent

    def disconnect(self) -> None:
        """The server is gone, and with it what waited to be sent; the live set stays."""
        with self.lock:
            self.connected = self._settled = False
            self._stop_streaming()
            self._count_gap()
            self._dropped += self.queued()
            self._in_flight, self.queue = 0, []
            self.declarations.stop()

    def _stop_streaming(self) -> None:
        self.streaming = False
        self.mark = sys.maxsize
        for lane in self.live.lanes():
            lane.streaming = False

    def _count_gap(self) -> None:
        self._dropped = self.dropped()
        self._gap_since = None


def _make_room(cache: dict[Any, Any]) -> None:
    if len(cache) >= MOST_TARGETS:
        cache.clear()
