"""To free something twice is another fault than to free something that was never seen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ledger.oracle import facts
from ttmem.events import Event, Flag, KernelType, MemoryKind, Op
from ttmem.ledger import Books, ProcessRecord
from ttmem.wire.rows import FindingCode

REMEMBERED = 4096
BEGIN = {Op.FREE: Op.ALLOC, Op.CB_FREE: Op.CB_ALLOC, Op.KERNEL_UNLOAD: Op.KERNEL_LOAD}
TWICE = {
    Op.FREE: "double_free",
    Op.CB_FREE: "double_cb_free",
    Op.KERNEL_UNLOAD: "double_unload",
    Op.PROGRAM_DESTROY: "double_unload",
}
NEVER_SEEN = {
    Op.FREE: "unknown_free",
    Op.CB_FREE: "unknown_cb_free",
    Op.KERNEL_UNLOAD: "unknown_unload",
    Op.PROGRAM_DESTROY: "unknown_unload",
}


def opened(**options: int) -> tuple[Books, ProcessRecord]:
    books = Books(**options)  # type: ignore[arg-type]
    return books, books.open_process(facts(41))


def told(books: Books, process: ProcessRecord, *events: Event) -> dict[str, int]:
    """How often each anomaly was found, after these events."""
    data = b"".join(event.pack() for event in events)
    books.apply(process, data, 0, len(data), 1)
    return {FindingCode(row.anomaly).name.lower(): row.times for row in books.findings()}


def alloc(id: int, size: int = 4096, kind: int = MemoryKind.L1) -> Event:
    return Event(Op.ALLOC, kind, id=id, size=size)


def free(id: int) -> Event:
    return Event(Op.FREE, id=id)


@pytest.mark.parametrize("op", BEGIN)
def test_the_second_free_is_a_double_free_and_a_stranger_is_not(op: Op) -> None:
    books, process = opened()
    begin, end = Event(BEGIN[op], id=7, size=4096), Event(op, id=7, size=4096)

    assert told(books, process, begin, end) == {}
    assert told(books, process, end) == {TWICE[op]: 1}
    assert told(books, process, end._replace(id=8)) == {TWICE[op]: 1, NEVER_SEEN[op]: 1}
    assert told(books, process, begin, end) == {TWICE[op]: 1, NEVER_SEEN[op]: 1}


def test_a_program_that_is_destroyed_twice_is_unloaded_twice_and_so_are_its_kernels() -> None:
    books, process = opened()
    load = Event(Op.KERNEL_LOAD, KernelType.APPLICATION, id=7, size=4096, extra=5, number=2)
    destroy = Event(Op.PROGRAM_DESTROY, id=5)

    assert told(books, process, load, destroy) == {}
    assert told(books, process, destroy) == {"double_unload": 1}
    assert told(books, process, Event(Op.KERNEL_UNLOAD, id=7)) == {"double_unload": 2}


def test_the_anomaly_says_it_in_words_and_who_did_it() -> None:
    books, process = opened()
    told(books, process, alloc(7), free(7), free(7))

    (device,) = books.snapshot(1).devices
    (anomaly,) = device.anomalies
    assert (anomaly.kind, anomaly.pid) == ("double_free", 41)
    assert "freed twice: once, last id 0x7" in anomaly.text


def test_another_process_or_device_has_not_freed_it() -> None:
    books, process = opened()
    other = books.open_process(facts(42))
    told(books, process, alloc(7), free(7))

    assert told(books, other, free(7)) == {"unknown_free": 1}
    assert told(books, process, free(7)._replace(device=1)) == {"unknown_free": 1}
    rows = [(row.process, FindingCode(row.anomaly)) for row in books.findings()]
    assert rows == [
        (other.index, FindingCode.UNKNOWN_FREE),
        (process.index, FindingCode.UNKNOWN_FREE),
    ]


def test_the_last_4096_frees_of_a_process_are_remembered() -> None:
    books, process = opened()
    told(books, process, *(event for id in range(10_000) for event in (alloc(id), free(id))))

    oldest = 10_000 - REMEMBERED
    assert told(books, process, *map(free, range(oldest, 10_000))) == {"double_free": REMEMBERED}
    assert told(books, process, free(oldest - 1)) == {"double_free": REMEMBERED, "unknown_free": 1}


@pytest.mark.parametrize("unseen", [alloc(7, size=0), alloc(7, kind=9), alloc(7, size=1 << 60)])
def test_the_free_of_what_was_allocated_with_an_impossible_report_is_no_second_one(
    unseen: Event,
) -> None:
    books, process = opened()

    found = told(books, process, alloc(7), free(7), unseen, free(7))
    assert found == {"rejected": 1, "unknown_free": 1}


def test_the_free_of_what_the_table_had_no_room_for_is_no_second_one() -> None:
    books, process = opened(max_live=1)

    found = told(books, process, alloc(7), free(7), alloc(8), alloc(7), free(7))
    assert found == {"table_full": 1, "unknown_free": 1}


def test_after_a_resync_nobody_knows_what_is_freed_twice() -> None:
    books, process = opened()
    told(books, process, alloc(7), free(7))
    books.native.begin_resync(process.index)
    books.native.end_resync(process.index)

    assert told(books, process, free(7)) == {"unknown_free": 1}


IDS = st.integers(1, 6)
KIND = st.sampled_from([MemoryKind.DRAM, MemoryKind.L1])
STEPS = st.one_of(
    st.builds(lambda id, kind: Event(Op.ALLOC, kind, id=id, size=64), IDS, KIND),
    st.builds(lambda id: Event(Op.FREE, id=id), IDS),
    st.builds(lambda id, kind: Event(Op.FREE, kind, Flag.KIND_KNOWN, id=id), IDS, KIND),
    st.builds(
        lambda op, id, size: Event(op, id=id, size=size),
        st.sampled_from([Op.CB_ALLOC, Op.CB_FREE]),
        IDS,
        st.sampled_from([64, 128]),
    ),
    st.builds(
        lambda op, id: Event(op, id=id, size=64),
        st.sampled_from([Op.KERNEL_LOAD, Op.KERNEL_UNLOAD]),
        IDS,
    ),
)


@given(st.lists(STEPS, max_size=60))
@settings(max_examples=300, deadline=None)
def test_every_free_that_matches_nothing_is_told_apart(steps: Sequence[Event]) -> None:
    books, process = opened()
    live: Counter[tuple[int, ...]] = Counter()
    latest: dict[tuple[int, ...], int] = {}
    ended: set[tuple[int, ...]] = set()
    expected: Counter[str] = Counter()
    for number, event in enumerate(steps):
        if event.op in BEGIN.values():
            name = (event.op, event.id, event.kind if event.op == Op.ALLOC else event.size)
            if not live[name]:
                latest[name] = number
            live[name] = 1 if event.op == Op.KERNEL_LOAD else live[name] + 1
            continue
        begin = BEGIN[Op(event.op)]
        names = [(begin, event.id, event.size)]
        if event.op == Op.FREE:
            kinds = [event.kind] if event.flags else [MemoryKind.DRAM, MemoryKind.L1]
            names = [(begin, event.id, kind) for kind in kinds]
        alive = [name for name in names if live[name]]
        if alive:
            name = max(alive, key=latest.__getitem__)
            live[name] -= 1
            ended |= {name} if not live[name] else set()
        else:
            known = TWICE if ended & set(names) else NEVER_SEEN
            expected[known[Op(event.op)]] += 1

    assert told(books, process, *steps) == expected
