"""A replay can say what was held on each device after every record, and which buffers came and went."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings

from tests.ledger.test_journal import HISTORIES, Step, Tape, begun, take
from ttmem._native import Ledger
from ttmem.events import EVENT_SIZE, Event, MemoryKind, Op
from ttmem.ledger.journal import JournaledLedger
from ttmem.wire.rows import (
    BufferChangeRow,
    BufferRow,
    DeviceRow,
    FindingRow,
    TotalsRow,
    flat_rows,
    grouped_rows,
)

Held = tuple[int, int, int, int, int]


def journal_of(history: Sequence[Step]) -> bytes:
    ledger, tape = JournaledLedger(seed=1), Tape()
    ledger.attach(tape)
    begun(ledger)
    for step in history:
        take(ledger, step)
    return tape.data


def held(ledger: Ledger) -> list[Held]:
    order = (MemoryKind.DRAM, MemoryKind.L1, MemoryKind.L1_SMALL, MemoryKind.TRACE)
    return [
        (*(row.held[kind] for kind in order), row.cb_used)  # type: ignore[misc]
        for row in grouped_rows(DeviceRow, ledger.devices())
    ]


@settings(max_examples=100, deadline=None)
@given(HISTORIES)
def test_the_totals_after_every_record_are_those_of_a_ledger_that_stopped_there(
    history: Sequence[Step],
) -> None:
    data = journal_of(history)

    taken, rows, _, _ = Ledger(seed=2).replay_logged(data)

    # Replay the records one by one; DEFINE_CORES and its mask are taken together.
    stepwise, expected, at, width = Ledger(seed=3), [], 0, 1
    before: list[Held] = []
    while at < taken:
        done = stepwise.replay(data[at * EVENT_SIZE : (at + width) * EVENT_SIZE])
        if not done:
            width = 3
            continue
        now = held(stepwise)
        for device, amounts in enumerate(now):
            if amounts != (before[device] if device < len(before) else (0,) * 5):
                expected.append((at, device, *amounts))
        before, at, width = now, at + done, 1
    found = list(flat_rows(TotalsRow, rows))
    assert [(row.record, row.device, *row[3:]) for row in found] == expected


def test_a_change_has_the_time_of_its_event() -> None:
    ledger, tape = JournaledLedger(seed=1), Tape()
    ledger.attach(tape)
    begun(ledger)
    event = Event(Op.ALLOC, MemoryKind.L1, time=70, id=1, size=400).pack()
    ledger.apply(0, event, 0, len(event), 90)

    _, rows, _, _ = Ledger(seed=2).replay_logged(tape.data)

    (row,) = flat_rows(TotalsRow, rows)
    assert (row.time, row.device, row.l1) == (70, 0, 400)


def identity(row: BufferChangeRow | BufferRow) -> tuple[int, ...]:
    since = row.since if isinstance(row, BufferChangeRow) else row.time
    key = (row.process, row.device, row.kind, row.id, since)
    return (*key, row.size, row.reserved, row.address, row.name, row.site, row.phase)


@settings(max_examples=100, deadline=None)
@given(HISTORIES)
def test_buffers_that_came_and_did_not_go_are_those_that_are_alive(
    history: Sequence[Step],
) -> None:
    data = journal_of(history)
    ledger = Ledger(seed=2)

    _, _, rows, _ = ledger.replay_logged(data)

    alive: dict[tuple[int, ...], int] = {}
    last = 0
    for row in flat_rows(BufferChangeRow, rows):
        assert row.record >= last
        last = row.record
        alive[identity(row)] = alive.get(identity(row), 0) + (1 if row.begins else -1)
    found = sorted(key for key, times in alive.items() for _ in range(times))
    assert found == sorted(map(identity, flat_rows(BufferRow, ledger.buffers())))
    assert min(alive.values(), default=0) >= 0


def test_each_anomaly_is_logged_even_if_its_process_ended_since() -> None:
    ledger, tape = JournaledLedger(seed=1), Tape()
    ledger.attach(tape)
    begun(ledger)
    event = Event(Op.FREE, time=70, id=99).pack()
    ledger.apply(0, event, 0, len(event), 90)
    ledger.release_process(0)

    replayed = Ledger(seed=2)
    _, _, _, rows = replayed.replay_logged(tape.data)

    assert [row[:5] for row in flat_rows(FindingRow, rows)] == [(1, 0, 0, 1, 0)]
    assert replayed.findings() == b""
