"""What one user declares about a device changes nothing for another one who has it open."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from tests.ledger.oracle import NOW, region, slot
from ttmem.events import EVENT_SIZE, Amounts, DeviceDeclaration, Event, MemoryKind, Op
from ttmem.ledger import Books, ProcessRecord
from ttmem.procfs import ProcessFacts, user_name
from ttmem.snapshots import Device

GIB = 1 << 30
REAL = DeviceDeclaration(
    0, "9000", "n150", "wormhole_b0", "0000:01:00.0", l1_banks=64, l1_capacity=64 * 1_400_000,
    dram_banks=12, dram_bank_size=GIB,
)  # fmt: skip
FALSE = [
    replace(REAL, logical_id=7, board="p150", pci="0000:99:00.0"),
    replace(REAL, dram_banks=1, dram_bank_size=1 << 20, l1_capacity=1),
    replace(REAL, dram_banks=4096, dram_bank_size=1 << 32),
    replace(REAL, trace_bank_size=1 << 30, l1_small_bank_size=1 << 20, l1_bank_size=1),
]


def declared(books: Books, pid: int, user: str | None, told: DeviceDeclaration) -> ProcessRecord:
    process = books.open_process(ProcessFacts(pid, pid, user, "python"))
    books.declare(process, told)
    return process


def held(books: Books, process: ProcessRecord, size: int) -> None:
    event = Event(Op.ALLOC, MemoryKind.DRAM, device=0, id=1, size=size)
    books.apply(process, event.pack(), 0, EVENT_SIZE, 1)


def facts(device: Device) -> tuple[object, ...]:
    """Everything about a device that does not come from allocations."""
    memory = device.memory
    capacities = [each.capacity for each in (memory.dram, memory.l1, memory.l1_small, memory.trace)]
    return device.logical_id, device.board, device.pci, device.l1_capacity, capacities


def only(books: Books) -> Device:
    (device,) = books.snapshot(NOW).devices
    return device


@pytest.mark.parametrize("false", FALSE)
def test_another_user_changes_neither_identity_nor_capacity(false: DeviceDeclaration) -> None:
    books = Books()
    victim = declared(books, 1, "alice", REAL)
    held(books, victim, 6 * GIB)
    real = facts(only(books))

    attacker = declared(books, 2, "mallory", false)
    device = only(books)
    assert facts(device) == real
    assert [(each.kind, each.pid) for each in device.anomalies] == (
        [] if false == FALSE[3] else [("declaration", 2)]
    )
    assert all("user mallory" in each.text for each in device.anomalies)

    books.release(attacker, NOW)
    assert facts(only(books)) == real
    assert only(books).anomalies == ()
    books.release(victim, NOW)
    assert facts(only(books)) == real


def test_what_a_user_made_up_about_a_device_goes_with_it_when_another_one_opens_it() -> None:
    books = Books()
    attacker = declared(books, 1, "mallory", FALSE[2])
    held(books, attacker, 100 * GIB)
    books.release(attacker, NOW)
    victim = books.open_process(ProcessFacts(2, 2, "alice", "python"))
    books.declare(victim, DeviceDeclaration(0, "9000"))

    device = only(books)
    assert facts(device)[1:] == (None, None, None, [None] * 4)


def test_a_larger_capacity_that_another_user_once_declared_explains_no_peak() -> None:
    books = Books()
    first = declared(books, 1, "mallory", FALSE[2])
    held(books, first, 100 * GIB)
    only(books)
    victim = declared(books, 2, "alice", REAL)
    books.release(first, NOW)
    held(books, victim, GIB)

    peaks = [each.text for each in only(books).anomalies if each.kind == "peak_over_capacity"]
    assert len(peaks) == 1
    assert "from a time" not in peaks[0]


@pytest.mark.parametrize("user", [None, "root", user_name(os.geteuid())])
def test_root_and_the_user_of_the_server_are_believed_before_others(user: str | None) -> None:
    books = Books()
    declared(books, 1, "mallory", FALSE[2])
    trusted = declared(books, 2, user, REAL)
    (anomaly,) = only(books).anomalies

    assert only(books).memory.dram.capacity == 12 * GIB
    assert (anomaly.kind, anomaly.pid) == ("declaration", 1)
    books.release(trusted, NOW)
    assert only(books).memory.dram.capacity == 1 << 44


def test_other_region_sizes_of_the_same_user_count_together() -> None:
    books = Books()
    declared(books, 1, "alice", replace(REAL, trace_bank_size=1 << 20))
    declared(books, 2, "alice", replace(REAL, trace_bank_size=0))

    assert only(books).memory.trace.capacity == 12 << 20
    assert only(books).anomalies == ()


def test_the_host_knows_a_device_better_than_who_opened_it_first() -> None:
    """The chip is in use by stock ttnn, and somebody else was there before with a made-up one of that id."""
    books = Books()
    declared(books, 1, "mallory", FALSE[2])
    sample = replace(region("9000", slot(7, Amounts(dram=GIB))), user="alice", declaration=REAL)

    books.sample([sample], (), NOW)

    device = only(books)
    assert facts(device) == facts_of(REAL)
    assert [each.pid for each in device.anomalies if each.kind == "declaration"] == [1]


def facts_of(told: DeviceDeclaration) -> tuple[object, ...]:
    books = Books()
    declared(books, 1, None, told)
    return facts(only(books))


def test_the_identity_of_a_device_in_use_by_stock_ttnn_is_that_of_the_host() -> None:
    books = Books()
    sample = replace(region("9000", slot(7, Amounts(dram=GIB))), user="alice", declaration=REAL)
    books.sample([sample], (), NOW)
    before = facts(only(books))

    for pid, false in enumerate(FALSE, 1):
        declared(books, pid, "mallory", false)
        books.sample([sample], (), NOW)
        assert facts(only(books)) == before
