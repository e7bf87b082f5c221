"""Which process a connection belongs to, and when that process dies."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable

from ttmem.ledger import Books, ProcessRecord
from ttmem.process_identity import ProcessFacts, is_alive, process_facts
from ttmem.sources.socket_peer import Peer

_SO_PEERPIDFD = (
    77  # Linux 6.5: a handle on exactly the process that connected, whatever happens to its pid
)


class ProcessTable:
    """Accounts by (pid, start time). Each known process is watched by a pidfd, or polled where there is none."""

    def __init__(self, books: Books) -> None:
        self._books = books
        self._by_identity: dict[tuple[int, int | None], ProcessRecord] = {}
        self._peers: dict[int, set[Peer]] = {}
        self._handles: dict[int, int] = {}  # process index -> pidfd
        self._by_peer: dict[Peer, ProcessRecord] = {}

    def find(self, peer: Peer) -> ProcessRecord | None:
        """The account of a peer, if it reported anything yet."""
        return self._by_peer.get(peer)

    def attach(self, peer: Peer) -> tuple[ProcessRecord, int | None]:
        """The account of a peer that reports, and a new pidfd to watch, if one was made."""
        known = self._by_peer.get(peer)
        if known is not None:
            return known, None
        handle = _pidfd(peer) if peer.pid > 0 else None
        facts = (
            process_facts(peer.pid, peer.uid) if peer.pid > 0 else ProcessFacts(0, None, None, None)
        )
        # Without a pid two unseen processes cannot be told apart: each connection is one.
        identity = (peer.pid, facts.start_time_ns) if peer.pid > 0 else (0, -id(peer))
        process = self._by_identity.get(identity)
        if process is None:
            process = self._books.open_process(facts)
            self._by_identity[identity] = process
            self._peers[process.index] = set()
            if handle is not None:
                self._handles[process.index] = handle
        elif handle is not None:
            os.close(handle)
            handle = None
        process.connections += 1
        self._peers[process.index].add(peer)
        self._by_peer[peer] = process
        return process, handle

    def detach(self, peer: Peer) -> ProcessRecord | None:
        """A connection closed; the process keeps what it holds."""
        process = self._by_peer.pop(peer, None)
        if process is not None:
            process.connections -= 1
            self._peers[process.index].discard(peer)
        return process

    def owner(self, handle: int) -> ProcessRecord | None:
        """Whose pidfd this is."""
        for index, own in self._handles.items():
            if own == handle:
                return self._books.processes[index]
        return None

    def peers(self, process: ProcessRecord) -> Iterable[Peer]:
        """Its open connections."""
        return tuple(self._peers[process.index])

    def forget(self, process: ProcessRecord) -> int | None:
        """Drops a released process; returns its pidfd, which the caller closes."""
        for peer in self._peers.pop(process.index):
            self._by_peer.pop(peer, None)
        for identity in [key for key, value in self._by_identity.items() if value is process]:
            del self._by_identity[identity]
        return self._handles.pop(process.index, None)

    def gone(self) -> list[ProcessRecord]:
        """Processes of connections without a pidfd that have died, by asking the kernel."""
        unwatched = self._peers.keys() - self._handles
        records = [self._books.processes[index] for index in unwatched]
        return [process for process in records if not self._lives(process)]

    def _lives(self, process: ProcessRecord) -> bool:
        if process.pid > 0:
            return is_alive(process.pid, process.facts.start_time_ns)
        return process.connections > 0


def _pidfd(peer: Peer) -> int | None:
    try:
        return peer.socket.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD)
    except OSError:
        pass
    try:
        return os.pidfd_open(peer.pid)
    except OSError:
        return None
