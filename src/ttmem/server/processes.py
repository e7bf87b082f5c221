"""Which process a connection belongs to, when that process dies, and which clients must send everything again."""

from __future__ import annotations

import os
import socket
import time

from ttmem.ledger import Books, ProcessRecord
from ttmem.procfs import ProcessFacts, is_alive, process_facts, runs_another_program, user_name
from ttmem.sources.socket.peer import HISTORICAL, Peer
from ttmem.wire.frames import Frame

MAX_REPORTERS = 256  # of one process
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0  # seconds until a client is asked to resend again
# Linux 6.5: a descriptor of exactly the process that connected, even if its pid is reused.
_SO_PEERPIDFD = 77


class ProcessTable:
    """Processes by (pid, start time), each watched by a pidfd, or polled where there is none.

    A process may have several reporters (clients), each with an account of its own, and the accounts add up. A resync
    replaces what the same reporter said before, and nothing else.
    """

    def __init__(self, books: Books, max_handles: int) -> None:
        self._books = books
        self._max_handles = max_handles
        self._by_identity: dict[tuple[int, int | None], ProcessRecord] = {}
        self._handles: dict[int, int] = {}  # process index -> pidfd
        self._by_peer: dict[Peer, ProcessRecord] = {}

    def find(self, peer: Peer) -> ProcessRecord | None:
        """The account of a peer that has reported something."""
        return self._by_peer.get(peer)

    def attach(self, peer: Peer) -> tuple[ProcessRecord, int | None]:
        """The account of a peer that reports, and a new pidfd to watch, if one was opened.

        ValueError if the process has too many reporters.
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
        # Processes whose pid cannot be seen from here are indistinguishable: each connection counts as one.
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
            # A reporter without a name is taken for an earlier one that has no connection any more.
            free = peer.reporter is not None or account.connections == 0
            if account.reporter == peer.reporter and free:
                return account
        if len(process.accounts) >= MAX_REPORTERS and peer.reporter != HISTORICAL:
            raise ValueError(f"pid {peer.pid} has {MAX_REPORTERS} reporters, the most there may be")
        account = self._books.open_process(process.facts, part_of=process)
        account.reporter = peer.reporter
        return account

    def detach(self, peer: Peer) -> ProcessRecord | None:
        """Forgets a closed connection; its account keeps what it holds."""
        account = self._by_peer.pop(peer, None)
        if account is not None:
            account.connections -= 1
        return account

    def owner(self, handle: int) -> ProcessRecord | None:
        """The process of a pidfd."""
        for index, own in self._handles.items():
            if own == handle:
                return self._books.processes[index]
        return None

    def peers(self, process: ProcessRecord) -> list[Peer]:
        """The open connections of a process."""
        return [p for p, own in self._by_peer.items() if process in (own, own.part_of)]

    def peers_of(self, account: ProcessRecord) -> list[Peer]:
        """The open connections of one reporter."""
        return [peer for peer, own in self._by_peer.items() if own is account]

    def connected(self, process: ProcessRecord) -> bool:
        return any(account.connections for account in process.accounts)

    def forget(self, process: ProcessRecord) -> int | None:
        """Drops a released process; returns its pidfd for the caller to close."""
        for peer in self.peers(process):
            del self._by_peer[peer]
        for identity in [key for key, value in self._by_identity.items() if value is process]:
            del self._by_identity[identity]
        return self._handles.pop(process.index, None)

    def gone(self) -> list[ProcessRecord]:
        """Processes that ended without a pidfd to tell, or that run another program now."""
        return [process for process in self._by_identity.values() if not self._lives(process)]

    def before_exec(self, peer: Peer) -> ProcessRecord | None:
        """The record of the process of a new connection from before its exec of another program."""
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


class Resends:
    """Asks clients to send everything again once there is space for what was refused.

    Each client is asked separately, and less and less often while that does not help.
    """

    def __init__(self, books: Books, processes: ProcessTable) -> None:
        self._books = books
        self._processes = processes
        self._asked: dict[int, tuple[float, float]] = {}  # by account: when, and the pause then

    def ask(self) -> list[Peer]:
        """To be called once a second; returns the connections that were asked."""
        now = time.monotonic()
        asked: list[Peer] = []
        before, self._asked = self._asked, {}
        for account, why in self._books.incomplete():
            when, pause = before.get(account.index, (now, 0.0))
            if now - when >= pause:
                peers = self._processes.peers_of(account)
                asked += [peer for peer in peers if peer.tell(Frame.RESEND, why)]
                when, pause = now, min(max(FIRST_PAUSE, 2 * pause), LONGEST_PAUSE)
            self._asked[account.index] = when, pause
        return asked
