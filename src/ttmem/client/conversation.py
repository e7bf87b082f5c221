"""What the sending thread says to one server, from the welcome on."""

from __future__ import annotations

from time import monotonic

from ttmem.client.connection import Connection
from ttmem.client.outbox import Outbox
from ttmem.client.records import resent
from ttmem.wire.frames import HEADER, LOST, Frame, frame

# 2 MiB; a server takes 4. After each send a busy application lets the thread wait 5 ms for the
# interpreter, so fewer and larger frames carry more.
SLICES_PER_FRAME = 16
RECORDS_PER_FRAME = 8192  # of a resync: half a millisecond's work
PAUSE_AFTER_RESYNC = 4  # times its duration: an overloaded client must not resync all the time


class Conversation:
    """Declarations, a resync, then events as they come, until an error ends it."""

    def __init__(self, outbox: Outbox, connection: Connection) -> None:
        self._outbox = outbox
        self._connection = connection
        self._told_losses = (0, 0)
        self._next_resync = 0.0

    def run(self) -> None:
        """Returns only by an exception: the server is gone, or the client is closed."""
        self._connection.send(b"".join(self._outbox.connect()))
        self._resync()
        while True:
            self._tell_losses()
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
        """Tells all that is alive; `ttmem.client.outbox` says why the order is right."""
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

    def _tell_losses(self) -> None:
        losses = (self._outbox.dropped(), self._outbox.live.room.overflow)
        if losses != self._told_losses:
            self._connection.send(frame(Frame.LOST, LOST.pack(*losses)))
            self._told_losses = losses
