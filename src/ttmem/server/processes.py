"""Which process a connection belongs to, when that process dies, and which clients must send everything again."""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Mapping
from itertools import islice
from typing import Any, TypeVar

from ttmem.ledger import Books, ProcessRecord
from ttmem.procfs import (
    ProcessFacts,
    is_alive,
    process_facts,
    runs_another_program,
    user_id,
    user_name,
)
from ttmem.sources.socket.peer import HISTORICAL, Peer
from ttmem.wire.frames import Frame

LOOKS = 64  # at processes of one user per second
MAX_REPORTERS = 256  # of one process
MAX_NAME = 64  # characters in the name of a reporter or program
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0  # seconds until a client is asked to resend again
# Linux 6.5: a descriptor of exactly the process that connected, even if its pid is reused.
_SO_PEERPIDFD = 77

K = TypeVar("K")
V = TypeVar("V")


class ProcessTable:
    """Processes by (pid, start time), each watched by a pidfd, or polled if there is none.

    A process may have several reporters (clients), each with its own account, and the accounts add up. A resync
    replaces what the same reporter reported before, and nothing else.
    """

    def __init__(self, books: Books, max_handles: int) -> None:
        self._books = books
        self._max_handles = max_handles
        self._by_identity: dict[tuple[int, int | None], ProcessRecord] = {}
        self._by_pid: dict[int, dict[ProcessRecord, None]] = {}
        self._by_user: dict[str | None, dict[ProcessRecord, None]] = {}  # to be polled, in turn
        self._handles: dict[int, int] = {}  # process index -> pidfd
        self._owners: dict[int, ProcessRecord] = {}  # by pidfd
        self.by_peer: dict[Peer, ProcessRecord] = {}  # accounts of those that have reported
        self._peers: dict[int, dict[Peer, None]] = {}  # by account index
        # By account index: when it was asked to resend, and the pause then.
        self._asked: dict[int, tuple[float, float]] = {}

    def attach(self, peer: Peer) -> tuple[ProcessRecord, int | None]:
        """The account of a peer that reports for the first time, and a new pidfd to watch, if one was opened.

        ValueError if the process has too many reporters.
        """
        handle, facts = _identify(peer)
        if handle is not None and len(self._handles) >= self._max_handles:
            os.close(handle)
            handle = None
        known = None if facts is None else self._by_identity.get(_identity(facts))
        if known is None:
            # Not known to be the same as another one: each connection counts as a process.
            pid = peer.pid if handle is not None else 0
            unknown = ProcessFacts(pid, None, user_name(peer.uid), None)
            account = process = self._books.open_process(facts or unknown)
            account.reporter = peer.reporter
            if facts is not None:
                self._by_identity[_identity(facts)] = process
            self._by_pid.setdefault(process.pid, {})[process] = None
            self._by_user.setdefault(process.facts.user, {})[process] = None
            if handle is not None:
                self._handles[process.index] = handle
                self._owners[handle] = process
        else:
            if handle is not None:
                os.close(handle)
                handle = None
            account = self._account(known, peer)
        account.connections += 1
        self.by_peer[peer] = account
        self._peers.setdefault(account.index, {})[peer] = None
        return account, handle

    def _account(self, process: ProcessRecord, peer: Peer) -> ProcessRecord:
        for account in process.accounts:
            # A reporter without a name is taken for an earlier one that has no connection any more.
            free = peer.reporter is not None or account.connections == 0
            if account.reporter == peer.reporter and free:
                return account
        if len(process.accounts) >= MAX_REPORTERS and peer.reporter != HISTORICAL:
            raise ValueError(f"pid {peer.pid} has {MAX_REPORTERS} reporters, which is the limit")
        account = self._books.open_process(process.facts, part_of=process)
        account.reporter = peer.reporter
        return account

    def detach(self, peer: Peer) -> ProcessRecord | None:
        """Forgets a closed connection; its account keeps what it holds."""
        account = self.by_peer.pop(peer, None)
        if account is not None:
            account.connections -= 1
            _drop(self._peers, account.index, peer)
        return account

    def owner(self, handle: int) -> ProcessRecord | None:
        return self._owners.get(handle)

    def peers(self, process: ProcessRecord) -> list[Peer]:
        """The open connections of a process."""
        return [peer for account in process.accounts for peer in self.peers_of(account)]

    def peers_of(self, account: ProcessRecord) -> list[Peer]:
        """The open connections of one reporter."""
        return list(self._peers.get(account.index, ()))

    def before(self, peer: Peer) -> Peer | None:
        """The open connection of the same reporter that came before this one."""
        peers = self._peers[self.by_peer[peer].index]
        return next((other for other in reversed(peers) if other is not peer), None)

    def connected(self, process: ProcessRecord) -> bool:
        return any(account.connections for account in process.accounts)

    def forget(self, process: ProcessRecord) -> int | None:
        """Drops a process that has ended, except its connections; returns its pidfd for the caller to close."""
        if self._by_identity.get(_identity(process.facts)) is process:
            del self._by_identity[_identity(process.facts)]
        _drop(self._by_pid, process.pid, process)
        _drop(self._by_user, process.facts.user, process)
        handle = self._handles.pop(process.index, None)
        if handle is not None:
            del self._owners[handle]
        return handle

    def gone(self) -> list[ProcessRecord]:
        """Processes that ended without a pidfd to tell, or that run another program now.

        To be called once a second. Each look takes 60 us, so it looks at some processes of each user, in turn.
        """
        found = []
        for processes in self._by_user.values():
            for process in list(islice(processes, LOOKS)):
                processes[process] = processes.pop(process)
                if not self._lives(process):
                    found.append(process)
        return found

    def before_exec(self, peer: Peer) -> ProcessRecord | None:
        """The record of the process of a new connection from before its exec of another program."""
        same = self._by_pid.get(peer.pid, ()) if peer.pid > 0 else ()
        return next((process for process in same if runs_another_program(process.facts)), None)

    def ask_to_resend(self) -> list[Peer]:
        """Asks clients to send everything again once there is space for what was refused; returns those connections.

        To be called once a second. Each is asked separately, and less and less often while that does not help.
        """
        now = time.monotonic()
        asked: list[Peer] = []
        before, self._asked = self._asked, {}
        for account, why in self._books.incomplete():
            when, pause = before.get(account.index, (now, 0.0))
            if now - when >= pause:
                asked += [peer for peer in self.peers_of(account) if peer.tell(Frame.RESEND, why)]
                when, pause = now, min(max(FIRST_PAUSE, 2 * pause), LONGEST_PAUSE)
            self._asked[account.index] = when, pause
        return asked

    def _lives(self, process: ProcessRecord) -> bool:
        if process.pid == 0:
            return self.connected(process)
        if runs_another_program(process.facts):
            return False
        facts = process.facts
        return process.index in self._handles or is_alive(facts.pid, facts.start_time_ns)


def _drop(groups: dict[K, dict[V, None]], key: K, value: V) -> None:
    """Removes it from its group, and the group with its last one."""
    group = groups.get(key)
    if group is not None:
        group.pop(value, None)
        if not group:
            del groups[key]


def _identity(facts: ProcessFacts) -> tuple[int, int | None]:
    return facts.pid, facts.start_time_ns


def _identify(peer: Peer) -> tuple[int | None, ProcessFacts | None]:
    """A pidfd of the process that connected, and what /proc says about it.

    The process may have ended while another one holds its socket, and its pid may belong to someone else by now. There
    are no facts then: with those of the new owner, a user could speak for that process and read its command line.
    """
    if peer.pid <= 0:
        return None, None
    try:
        handle = peer.socket.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD)
    except OSError:
        return _identify_by_pid(peer)
    facts = process_facts(peer.pid, peer.uid)
    return handle, None if has_ended(handle) else facts


def _identify_by_pid(peer: Peer) -> tuple[int | None, ProcessFacts | None]:
    """Before Linux 6.5: whoever has the pid now, if it is the same user."""
    try:
        handle = os.pidfd_open(peer.pid)
    except OSError:
        handle = None
    facts = process_facts(peer.pid, peer.uid)
    if user_id(peer.pid) in (peer.uid, None):
        return handle, facts
    if handle is not None:
        os.close(handle)
    return None, None


def has_ended(handle: int) -> bool:
    """Whether the process of a pidfd has ended."""
    poll = select.poll()  # select() knows no descriptor beyond 1,023
    poll.register(handle, select.POLLIN)
    return bool(poll.poll(0))


def name_in(document: Mapping[str, Any], key: str) -> str | None:
    """A short text in a HELLO; None if there is none."""
    value = document.get(key)
    if value is None:
        return None
    if not isinstance(value, str) or not 0 < len(value) <= MAX_NAME or not value.isprintable():
        raise ValueError(f"{key} must be a short printable text, not {value!r:.60}")
    return value
