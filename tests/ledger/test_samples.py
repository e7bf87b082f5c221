"""Counters alone: what they tell is shown, and what they do not tell is not made up."""

from __future__ import annotations

from tests.ledger.oracle import NOW, alloc, facts, region, report, slot
from ttmem.events import Amounts, Owner, Remark
from ttmem.ledger import Books
from ttmem.ledger.register import MAX_DEVICES


def test_requested_bytes_are_known_and_nothing_else_is_made_up() -> None:
    books = Books()
    books.sample([region("9000", slot(41, Amounts(dram=5000, l1=300, trace=7, cb=20)))], (), NOW)

    (device,) = books.snapshot(NOW).devices
    memory, kernels = device.memory, device.kernels
    assert (memory.dram.requested, memory.dram.held, memory.l1.held) == (5000, 5000, 300)
    assert (memory.dram.reserved, memory.dram.count, memory.dram.capacity) == (None, None, None)
    assert (memory.dram.peak, memory.dram.peak_time_ns) == (5000, NOW)
    assert (memory.cb.used, memory.cb.cached, memory.cb.resident) == (20, 20, None)
    assert (memory.cb.demand, memory.cb.dataflow, memory.cb.count) == (None, None, None)
    assert (kernels.loads, kernels.count, kernels.footprint.total) == (None, None, None)
    assert device.l1_used == 320
    assert device.provenance["dram"].source == "shared memory v3"
    assert device.provenance["dram"].misses == "other threads"


def test_an_idle_region_is_a_device_of_which_only_sums_are_known() -> None:
    books = Books()
    books.sample([region("9000")], (), NOW)

    (device,) = books.snapshot(NOW).devices
    assert (device.memory.dram.held, device.memory.dram.reserved) == (0, None)
    assert (device.memory.dram.count, device.kernels.loads) == (None, None)


def test_circular_buffers_of_version_4_are_those_of_the_last_dispatch() -> None:
    books = Books()
    books.sample([region("9000", slot(41, Amounts(cb=64)), version=4)], (), NOW)

    cb = books.snapshot(NOW).devices[0].memory.cb
    assert (cb.used, cb.resident, cb.cached) == (64, 64, None)


def test_who_is_not_in_a_reading_holds_nothing_and_a_removed_region_is_no_device() -> None:
    books = Books()
    books.sample([region("9000", slot(41, Amounts(dram=50)))], (), NOW)
    books.sample([region("9000")], (), NOW + 1)

    picture = books.snapshot(NOW + 1)
    assert (picture.processes, picture.devices[0].memory.dram.held) == ((), 0)
    assert picture.devices[0].memory.dram.peak == 50

    books.sample([], (), NOW + 2)
    assert books.snapshot(NOW + 2).devices == ()


def test_a_ghost_is_in_no_sum_and_shown_as_left_behind() -> None:
    books = Books()
    living, dead = Amounts(dram=50), Amounts(dram=900, l1=9)
    books.sample([region("9000", slot(41, living), slot(42, dead, Owner.DEAD))], (), NOW)

    picture = books.snapshot(NOW)
    (left,) = picture.left_behind
    assert picture.devices[0].memory.dram.held == 50
    assert [p.pid for p in picture.processes] == [41]
    assert (left.pid, left.ghost, left.died_ns) == (42, True, None)
    assert left.devices == {"9000": Amounts(900, 9, 0, 0, 0)}


def test_a_death_between_two_readings_has_a_time() -> None:
    books = Books()
    books.sample([region("9000", slot(42, Amounts(dram=900)))], (), NOW)
    for later in (NOW + 5, NOW + 9):
        books.sample([region("9000", slot(42, Amounts(dram=900), Owner.DEAD))], (), later)

    assert [left.died_ns for left in books.snapshot(NOW + 9).left_behind] == [NOW + 5]


def test_processes_of_a_container_count_though_nobody_knows_which_they_are() -> None:
    books = Books()
    process = books.open_process(facts(17))
    report(books, process, alloc(1000))
    elsewhere = slot(17, Amounts(dram=64), Owner.ELSEWHERE)
    books.sample([region("9000", elsewhere)], (), NOW)

    picture = books.snapshot(NOW)
    device = picture.device("9000")
    assert device is not None
    assert device.memory.dram.held == 64
    assert len(picture.processes) == 2  # the same number, in another container


def test_remarks_are_anomalies_of_the_device_or_of_the_host() -> None:
    books = Books()
    full = Remark("table_full", "all slots are in use")
    books.sample([region("9000", remarks=(full,))], [Remark("unreadable", "a file")], NOW)

    picture = books.snapshot(NOW)
    assert [(a.kind, a.text) for a in picture.devices[0].anomalies] == [(full.kind, full.text)]
    assert [remark.kind for remark in picture.remarks] == ["unreadable"]


def test_more_regions_than_are_kept_are_said_and_later_ones_find_room() -> None:
    books = Books()
    many = [region(str(number)) for number in range(MAX_DEVICES + 3)]
    books.sample(many, (), NOW)
    assert len(books.snapshot(NOW).devices) == MAX_DEVICES
    assert "3 regions" in books.snapshot(NOW).remarks[0].text

    books.sample([region("7777", slot(1, Amounts(dram=5)))], (), NOW + 1)
    (device,) = books.snapshot(NOW + 1).devices
    assert (device.unique_id, device.memory.dram.held, device.memory.dram.peak) == ("7777", 5, 5)
