"""What the sending thread says to one server, from the welcome on."""

from __future__ import annotations

from time import monotonic

from ttmem.client.connection import Connection
from ttmem.client.outbox import Outbox
from ttmem.client.records import resent
from ttmem.events import EVENT_SIZE
from ttmem.wire.frames import HEADER, LOST, Frame, frame

ROUND = 0.01  # seconds in which events gather before they are sent
ROUNDS_BEFORE_REST = 10  # empty ones; then the thread sleeps until an event wakes it
PAUSE_AFTER_RESYNC = 4  # times its duration: an overloaded client must not resync all the time

# To join so many takes 0.2 ms, in which the application waits for the interpreter lock. With fewer,
# the thread's own waits for it (5 ms per send, if the application is busy) limit the throughput.
EVENTS_PER_FRAME = 8192


class Conversation:
    """Declarations, a resync, then events as they come, until an error ends it."""

    def __init__(self, outbox: Outbox, connection: Connection) -> None:
        self._outbox = outbox
        self._connection = connection
        self._told_losses = (0, 0)
        self._next_resync = 0.0

    def run(self) -> None:
        """Returns only by an exception: the server is gone, or the client is closed."""
        self._send(b"".join(self._outbox.connect()))
        self._resync()
        empty_rounds = 0
        while True:
            empty_rounds = 0 if self._round() else empty_rounds + 1
            resting = empty_rounds > ROUNDS_BEFORE_REST and self._outbox.may_rest()
            self._connection.wait(None if resting else ROUND)

    def _round(self) -> bool:
        """Sends what there is; True if there was something."""
        declarations, events = self._outbox.take()
        self._send(b"".join(declarations))
        for start in range(0, len(events), EVENTS_PER_FRAME):
            part = events[start : start + EVENTS_PER_FRAME]
            header = HEADER.pack(Frame.EVENTS, len(part) * EVENT_SIZE)
            self._send(b"".join([header, *part]))
        self._tell_losses()
        if self._outbox.must_resync() and monotonic() >= self._next_resync:
            self._resync()
        return bool(events)

    def _resync(self) -> None:
        """Tells all that is alive; `ttmem.client.outbox` says why the order is right."""
        begun = monotonic()
        self._send(frame(Frame.RESYNC_BEGIN))
        for lane in self._outbox.begin_resync():
            records = self._outbox.capture(lane)
            for start in range(0, len(records), EVENTS_PER_FRAME):
                part = resent(records[start : start + EVENTS_PER_FRAME])
                self._send(frame(Frame.EVENTS, part))
        self._send(frame(Frame.RESYNC_END))
        self._outbox.end_resync()
        self._next_resync = monotonic() + PAUSE_AFTER_RESYNC * (monotonic() - begun)

    def _tell_losses(self) -> None:
        losses = (self._outbox.dropped(), self._outbox.room.overflow)
        if losses != self._told_losses:
            self._send(frame(Frame.LOST, LOST.pack(*losses)))
            self._told_losses = losses

    def _send(self, data: bytes) -> None:
        if data:
            self._connection.send(data)
