"""Which process a connection belongs to, and when that process dies."""

from __future__ import annotations

import os
import socket

from ttmem.ledger import Books, ProcessRecord
from ttmem.procfs import ProcessFacts, is_alive, process_facts, runs_another_program, user_name
from ttmem.sources.socket.peer import HISTORICAL, Peer

MAX_REPORTERS = 256  # of one process
_SO_PEERPIDFD = (
    77  # Linux 6.5: a handle on exactly the process that connected, whatever happens to its pid
)


class ProcessTable:
    """Processes by (pid, start time). Each one is watched by a pidfd, or polled where there is none.

    A process may report over several connections, each of which speaks for itself: a resync ends what the same
    reporter said before, and nothing else. So each reporter has an account of its own, and those of a process add up.
    """

    def __init__(self, books: Books, max_handles: int) -> None:
        self._books = books
        self._max_handles = max_handles
        self._by_identity: dict[tuple[int, int | None], ProcessRecord] = {}
        self._handles: dict[int, int] = {}  # process index -> pidfd
        self._by_peer: dict[Peer, ProcessRecord] = {}

    def find(self, peer: Peer) -> ProcessRecord | None:
        """The account of a peer, if it reported anything yet."""
        return self._by_peer.get(peer)

    def attach(self, peer: Peer) -> tuple[ProcessRecord, int | None]:
        """The account of a peer that reports, and a new pidfd to watch, if one was made.

        ValueError if the process has too many.
        """
        known = self._by_peer.get(peer)
        if known is not None:
            return known, None
        handle = _pidfd(peer) if peer.pid > 0 and len(self._handles) < self._max_handles else None
        facts = (
            process_facts(peer.pid, peer.uid)
            if peer.pid > 0
            else ProcessFacts(0, None, user_name(peer.uid), None)
        )
        # Without a pid two unseen processes cannot be told apart: each connection is one.
        identity = (peer.pid, facts.start_time_ns) if peer.pid > 0 else (0, -id(peer))
        process = self._by_identity.get(identity)
        if process is None:
            account = process = self._books.open_process(facts)
            account.reporter = peer.reporter
            self._by_identity[identity] = process
            if handle is not None:
                self._handles[process.index] = handle
        else:
            if handle is not None:
                os.close(handle)
                handle = None
            account = self._account(process, peer)
        account.connections += 1
        self._by_peer[peer] = account
        return account, handle

    def _account(self, process: ProcessRecord, peer: Peer) -> ProcessRecord:
        for account in process.accounts:
            # Who does not tell its name, and is the only one to come, is the one that went.
            free = peer.reporter is not None or account.connections == 0
            if account.reporter == peer.reporter and free:
                return account
        if len(process.accounts) >= MAX_REPORTERS and peer.reporter != HISTORICAL:
            raise ValueError(f"pid {peer.pid} has {MAX_REPORTERS} reporters, and no room for more")
        account = self._books.open_process(process.facts, part_of=process)
        account.reporter = peer.reporter
        return account

    def detach(self, peer: Peer) -> ProcessRecord | None:
        """A connection closed; its account keeps what it holds."""
        account = self._by_peer.pop(peer, None)
        if account is not None:
            account.connections -= 1
        return account

    def owner(self, handle: int) -> ProcessRecord | None:
        """Whose pidfd this is."""
        for index, own in self._handles.items():
            if own == handle:
                return self._books.processes[index]
        return None

    def peers(self, process: ProcessRecord) -> list[Peer]:
        """The open connections of a process."""
        return [p for p, own in self._by_peer.items() if process in (own, own.part_of)]

    def peers_of(self, account: ProcessRecord) -> list[Peer]:
        """The open connections of one of its reporters."""
        return [peer for peer, own in self._by_peer.items() if own is account]

    def connected(self, process: ProcessRecord) -> bool:
        """Has it an open connection?"""
        return any(account.connections for account in process.accounts)

    def forget(self, process: ProcessRecord) -> int | None:
        """Drops a released process; returns its pidfd, which the caller closes."""
        for peer in self.peers(process):
            del self._by_peer[peer]
        for identity in [key for key, value in self._by_identity.items() if value is process]:
            del self._by_identity[identity]
        return self._handles.pop(process.index, None)

    def gone(self) -> list[ProcessRecord]:
        """Processes that hold nothing any more, by asking the kernel: of a death a pidfd tells, where there is one."""
        return [process for process in self._by_identity.values() if not self._lives(process)]

    def before_exec(self, peer: Peer) -> ProcessRecord | None:
        """What the process of a new connection was when it ran another program."""
        if peer in self._by_peer:
            return None
        same = (process for process in self._by_identity.values() if process.pid == peer.pid > 0)
        return next((process for process in same if runs_another_program(process.facts)), None)

    def _lives(self, process: ProcessRecord) -> bool:
        if process.pid == 0:
            return self.connected(process)
        if runs_another_program(process.facts):
            return False
        facts = process.facts
        return process.index in self._handles or is_alive(facts.pid, facts.start_time_ns)


def _pidfd(peer: Peer) -> int | None:
    try:
        return peer.socket.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD)
    except OSError:
        pass
    try:
        return os.pidfd_open(peer.pid)
    except OSError:
        return None
