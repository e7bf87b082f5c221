"""One user's processes cannot take the whole table of live entries."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from tests.ledger.oracle import facts
from ttmem.events import Event, MemoryKind, Op
from ttmem.ledger import Books, ProcessRecord
from ttmem.procfs import user_name


def told(books: Books, process: ProcessRecord, count: int, op: Op = Op.ALLOC) -> None:
    events = b"".join(Event(op, MemoryKind.L1, id=n, size=64).pack() for n in range(count))
    books.apply(process, events, 0, len(events), 1)


def opened(books: Books, pid: int, user: str | None) -> ProcessRecord:
    return books.open_process(replace(facts(pid), user=user))


def test_a_user_has_half_of_the_table_with_all_its_processes() -> None:
    books = Books(max_live=100)
    greedy = [opened(books, pid, "mallory") for pid in (1, 2)]
    other = opened(books, 3, "alice")

    for process in greedy:
        told(books, process, 80)
    told(books, other, 40)

    assert sum(books.live(process) for process in greedy) == 50
    assert books.live(other) == 40
    full = {row.process for row in books.findings()}
    assert full == {process.index for process in greedy}


def test_what_a_user_gives_back_it_may_have_again() -> None:
    books = Books(max_live=100)
    first, second = (opened(books, pid, "mallory") for pid in (1, 2))
    told(books, first, 50)
    told(books, second, 10)
    assert books.incomplete() == []

    books.release(first, 2)

    assert [process for process, _ in books.incomplete()] == [second]
    told(books, second, 50)
    assert books.live(second) == 50


@pytest.mark.parametrize("user", [None, user_name(0), user_name(os.geteuid())])
def test_who_runs_the_server_and_root_have_no_limit(user: str | None) -> None:
    books = Books(max_live=100)
    process = opened(books, 1, user)

    told(books, process, 80)

    assert books.live(process) == 80
