"""The server's own parts, fed without waiting: real sockets, real peers, real books."""

from __future__ import annotations

import os
import random
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from ttmem.events import MemoryKind
from ttmem.server.server import Server
from ttmem.sources.socket.peer import Peer

MAX_LIVE = 2_000


class Target:
    """Feeds streams to a server that never runs its loop."""

    def __init__(self, server: Server) -> None:
        self.server = server

    def feed(self, rng: random.Random, data: bytes) -> None:
        """One connection: the stream in random pieces, quiet moments between, then the end."""
        ours, theirs = socket.socketpair()
        with ours, theirs:
            theirs.setblocking(False)
            peer = Peer(ours, os.getpid(), os.getuid(), self.server)
            at = 0
            while at < len(data) and not peer.closed:
                step = rng.choice((1, 7, 72, 144, 1000, len(data)))
                at += theirs.send(data[at : at + step])
                peer.readable()
                if rng.random() < 0.2:
                    peer.quiet()
                self._drain(theirs, peer)
            theirs.close()
            while not peer.closed:
                peer.readable()
            self.server.forget_peer(peer)

    def _drain(self, theirs: socket.socket, peer: Peer) -> None:
        for _ in range(100):
            if not peer.wants_write:
                break
            try:
                theirs.recv(1 << 20)
            except BlockingIOError:
                break
            peer.writable()

    def check(self) -> None:
        """The laws, whatever came in."""
        books = self.server.books
        picture = books.snapshot(1)
        assert books.native.live() <= MAX_LIVE
        for device in picture.devices:
            shares = [
                p.devices[device.unique_id]
                for p in picture.processes
                if device.unique_id in p.devices
            ]
            assert 0 <= device.l1_used == sum(share.l1_used for share in shares) < 1 << 62
            assert device.memory.dram.held == sum(share.dram for share in shares)
        for row in books.account_rows():
            assert all(row.held[kind] < 1 << 62 for kind in MemoryKind)
            assert row.cb_cached <= row.cb_demand or row.cb_unplaced or row.cb_map_full


@contextmanager
def target() -> Iterator[Target]:
    """A target on a socket of its own."""
    with tempfile.TemporaryDirectory() as folder:
        server = Server(os.path.join(folder, "fuzz.sock"), max_live=MAX_LIVE)
        try:
            yield Target(server)
        finally:
            server.close()
