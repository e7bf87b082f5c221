"""However many processes one user has, a second's work for them is bounded, and others do not wait for it."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager

from tests.patience import wait_until
from ttmem.ledger import Books, ProcessRecord
from ttmem.procfs import process_facts, runs_another_program
from ttmem.server.processes import LOOKS, ProcessTable
from ttmem.sources.socket.peer import Peer, Receiver

MANY = LOOKS + 40
CROWD, OTHER = 12345, 54321  # users without a name


@contextmanager
def waiting_to_exec(count: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """So many shells, each of which becomes another program when it is told to."""
    shell = ["sh", "-c", "read line; exec sleep 600"]
    children = [subprocess.Popen(shell, stdin=subprocess.PIPE) for _ in range(count)]
    try:
        yield children
    finally:
        for child in children:
            child.kill()
            child.communicate()


@contextmanager
def connected(child: subprocess.Popen[bytes], uid: int) -> Iterator[Peer]:
    mine, theirs = socket.socketpair()
    sink: Receiver = None  # type: ignore[assignment]  # nothing is sent
    with closing(mine), closing(theirs):
        yield Peer(mine, child.pid, uid, sink)


def attached(table: ProcessTable, child: subprocess.Popen[bytes], uid: int) -> ProcessRecord:
    with connected(child, uid) as peer:
        return table.attach(peer)[0]


def forget(table: ProcessTable, process: ProcessRecord) -> None:
    handle = table.forget(process)
    if handle is not None:
        os.close(handle)


def test_a_user_with_many_processes_delays_the_check_of_no_other() -> None:
    books = Books()
    table = ProcessTable(books, MANY + 1)
    with waiting_to_exec(MANY + 1) as (other, *crowd):
        for child in crowd:
            attached(table, child, CROWD)
        attached(table, other, OTHER)
        facts = [process_facts(child.pid) for child in (other, *crowd)]
        for child in (other, *crowd):
            assert child.stdin is not None
            child.stdin.write(b"\n")
            child.stdin.flush()
        wait_until(lambda: all(map(runs_another_program, facts)))

        rounds = []
        for _ in range(3):
            gone = table.gone()
            rounds.append((len(gone), other.pid in {process.pid for process in gone}))
            for process in gone:
                forget(table, process)
    assert rounds == [(LOOKS + 1, True), (MANY - LOOKS, False), (0, False)]
