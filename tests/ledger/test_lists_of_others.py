"""However many buffers another user has, a list costs a bounded time, and says what is not in it."""

from __future__ import annotations

import os

import pytest

from tests.ledger.oracle import NOW
from ttmem.events import Event, MemoryKind, Op
from ttmem.ledger import Books, details
from ttmem.procfs import ProcessFacts, user_name
from ttmem.snapshots import Question

STRANGER = "somebody else"


def test_only_the_largest_buffers_of_another_user_are_listed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(details, "MOST_OF_OTHERS", 3)
    books = Books()
    for pid, user in ((1, STRANGER), (2, user_name(os.geteuid())), (3, STRANGER)):
        process = books.open_process(ProcessFacts(pid, 1, user, None))
        events = b"".join(
            Event(Op.ALLOC, MemoryKind.DRAM, id=size, size=size * 64 + pid).pack()
            for size in range(1, 6)
        )
        books.apply(process, events, 0, len(events), NOW)

    question = Question(("buffers",))
    snapshot = books.details(question).add_all(books.snapshot(NOW))

    assert snapshot.buffers is not None
    sizes = sorted((one.requested, one.pid) for one in snapshot.buffers)
    assert sizes == [
        *((64 * size + 2, 2) for size in range(1, 5)),
        (64 * 4 + 3, 3),
        (64 * 5 + 1, 1),
        (64 * 5 + 2, 2),
        (64 * 5 + 3, 3),
    ]
    assert [remark.text for remark in snapshot.remarks] == [
        f"user {STRANGER}: only the 3 largest of 10 buffers are listed"
    ]
    assert snapshot.devices[0].memory.dram.held == sum(
        64 * size + pid for size in range(1, 6) for pid in (1, 2, 3)
    )
