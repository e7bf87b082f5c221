"""Circular buffers of programs that are not running lie where L1 buffers are: those bytes count once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.ledger.oracle import facts
from ttmem.events import DeviceDeclaration, Event, MemoryKind, Op
from ttmem.ledger import Books
from ttmem.snapshots import Device

BANKS = 2
BANK = 1000
BASE = 100
DECLARED = DeviceDeclaration(
    0, "77", l1_banks=BANKS, l1_bank_size=BANK, cb_base=BASE, l1_capacity=BANKS * BANK
)
BOTH_CORES = 0b11
OLD = Event(Op.CB_ALLOC, id=BASE, address=BASE, size=2 * 900, extra=1, cores=1)
SMALL = Event(Op.CB_ALLOC, id=BASE, address=BASE, size=2 * 100, extra=2, cores=1)
TOP = Event(Op.ALLOC, MemoryKind.L1, id=7, size=600, extra=2 * 300, address=BASE + 700)


def seen(*events: Event, declared: DeviceDeclaration = DECLARED) -> tuple[Books, Device]:
    books = Books()
    process = books.open_process(facts(41))
    books.declare(process, declared)
    books.define_cores(process, 1, BOTH_CORES)
    for event in events:
        books.apply(process, event.pack(), 0, 64, 1)
    (device,) = books.snapshot(1).devices
    return books, device


@pytest.mark.parametrize("events", [(OLD, SMALL, TOP), (TOP, SMALL, OLD), (OLD, TOP, SMALL)])
def test_a_byte_of_a_buffer_and_of_a_cached_program_counts_once(events: tuple[Event, ...]) -> None:
    _, device = seen(*events)

    cb = device.memory.cb
    assert (cb.cached, cb.shared, cb.used) == (1800, 2 * 200, 1400)
    assert device.l1_used == 600 + 1400 == device.l1_capacity
    assert not device.anomalies


def test_the_peak_counts_it_once_as_well() -> None:
    freed = Event(Op.FREE, MemoryKind.L1, id=7)

    _, device = seen(OLD, TOP, freed, TOP, freed)

    assert (device.l1_used, device.l1_peak) == (1800, 2000)
    assert device.memory.cb.shared == 0


def test_what_a_destroyed_program_shared_is_shared_no_longer() -> None:
    _, device = seen(OLD, SMALL, TOP, Event(Op.PROGRAM_DESTROY, id=1))

    assert (device.memory.cb.cached, device.memory.cb.shared) == (200, 0)
    assert device.l1_used == 800


@pytest.mark.parametrize(
    ("events", "declared"),
    [
        ((OLD, TOP), replace(DECLARED, l1_banks=None)),
        ((OLD, TOP._replace(extra=0)), DECLARED),
        ((OLD._replace(cores=0), TOP), DECLARED),
    ],
    ids=["banks", "reserved bytes", "cores"],
)
def test_without_addresses_nothing_is_guessed(
    events: tuple[Event, ...], declared: DeviceDeclaration
) -> None:
    _, device = seen(*events, declared=declared)

    assert device.memory.cb.shared is None
    assert device.memory.cb.used == 1800
    assert {anomaly.kind for anomaly in device.anomalies} == {"over_capacity"}


def test_banks_that_are_known_late_are_taken_at_the_next_tick() -> None:
    books, before = seen(OLD, TOP, declared=replace(DECLARED, l1_banks=None))
    (process,) = books.processes.values()

    books.declare(process, DECLARED)
    books.tick(2)
    (after,) = books.snapshot(3).devices

    assert (before.l1_used, after.l1_used) == (2400, 2000)
