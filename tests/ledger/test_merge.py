"""Counters beside events: one device is one device, one process is one, every byte counts once."""

from __future__ import annotations

import os

from tests.ledger.oracle import BORN, NOW, alloc, facts, region, report, slot
from ttmem.events import Amounts, DeviceDeclaration, Event, MemoryKind, Op
from ttmem.hw import device_spec
from ttmem.ledger import Books, ProcessRecord
from ttmem.procfs import ProcessFacts, start_time_ns
from ttmem.snapshots import from_json, to_json


def reporting(books: Books, pid: int) -> ProcessRecord:
    """A process with 1,000 bytes on device 9000, by its events."""
    process = books.open_process(facts(pid))
    books.declare(process, DeviceDeclaration.from_spec(device_spec("p150"), 0, "9000"))
    report(books, process, alloc(1000))
    return process


def test_a_process_that_both_tell_of_is_counted_once_and_events_win() -> None:
    books = Books()
    reporting(books, 41)
    books.sample([region("9000", slot(41, Amounts(dram=700, cb=64)))], (), NOW)

    picture = books.snapshot(NOW)
    (device,), (process,) = picture.devices, picture.processes
    check = process.cross_check["9000"]
    assert (device.memory.dram.held, device.memory.dram.count, device.memory.cb.used) == (
        1000,
        1,
        0,
    )
    assert process.sources == ("socket", "shared memory v3")
    assert (check.counted.dram, check.difference.dram, check.difference.cb) == (700, -300, 64)
    assert device.provenance["dram"].source == "socket"
    assert from_json(to_json(picture)) == picture


def test_others_on_the_same_device_count_beside_it() -> None:
    books = Books()
    reporting(books, 41)
    mine, other = slot(41, Amounts(dram=1000)), slot(42, Amounts(dram=64, cb=8))
    books.sample([region("9000", mine, other)], (), NOW)

    picture = books.snapshot(NOW)
    (device,) = picture.devices
    assert (device.memory.dram.held, device.memory.dram.reserved) == (1064, None)
    (second,) = (p for p in picture.processes if p.pid == 42)
    assert second.devices["9000"] == Amounts(64, 0, 0, 0, 8)
    assert device.provenance["dram"].source == "socket + shared memory v3"
    assert device.provenance["capacity"].source == "client"
    _, use = books.device(0)
    assert use is not None
    assert (use.held[MemoryKind.DRAM], use.cb_used) == (1064, 8)


def test_a_reporting_process_on_a_device_that_it_does_not_report_counts_there() -> None:
    books = Books()
    reporting(books, 41)
    books.sample([region("9001", slot(41, Amounts(dram=64)), number=1)], (), NOW)

    picture = books.snapshot(NOW)
    (process,) = picture.processes
    assert {uid: held.dram for uid, held in process.devices.items()} == {"9000": 1000, "9001": 64}


def test_a_pid_with_another_start_time_is_another_process() -> None:
    books = Books()
    reporting(books, 41)
    books.sample([region("9000", slot(41, Amounts(dram=64), started=BORN + 5))], (), NOW)

    picture = books.snapshot(NOW)
    assert picture.devices[0].memory.dram.held == 1064
    assert len(picture.processes) == 2


def test_counters_that_stay_above_the_events_are_an_anomaly_and_below_are_none() -> None:
    books = Books()
    reporting(books, 41)
    reporting(books, 42)
    reading = [region("9000", slot(41, Amounts(dram=4096)), slot(42, Amounts(dram=9)))]

    books.sample(reading, (), NOW)
    assert books.snapshot(NOW).devices[0].anomalies == ()  # one look may be between two events
    for _ in range(2):
        books.sample(reading, (), NOW)
    (anomaly,) = books.snapshot(NOW).devices[0].anomalies
    assert (anomaly.kind, anomaly.pid, anomaly.bytes) == ("cross_check", 41, 3096)


def test_a_device_known_by_number_is_the_chip_in_whose_region_the_process_has_a_slot() -> None:
    books = Books()
    process = books.open_process(facts(41))
    report(books, process, alloc(1000, id=1), alloc(24, id=2, kind=MemoryKind.L1))
    books.sample([region("9000", slot(41, Amounts(dram=1000)))], (), NOW)

    (device,) = books.snapshot(NOW).devices
    assert (device.unique_id, device.memory.dram.held, device.l1_used) == ("9000", 1000, 24)
    assert (device.logical_id, device.memory.dram.peak) == (0, 1000)

    report(books, process, Event(Op.FREE, device=0, id=1))
    (device,) = books.snapshot(NOW).devices
    assert (device.memory.dram.held, device.l1_used, device.anomalies) == (0, 24, ())


def test_what_a_client_declared_of_a_number_holds_for_the_chip_that_it_turns_out_to_be() -> None:
    books = Books()
    process = books.open_process(facts(41))
    spec = device_spec("p150")
    books.declare(process, DeviceDeclaration.from_spec(spec, 0))
    report(books, process, alloc(1000))
    books.sample([region("9000", slot(41, Amounts(dram=700)))], (), NOW)

    (device,) = books.snapshot(NOW).devices
    assert (device.unique_id, device.l1_capacity) == ("9000", spec.l1_capacity)
    assert device.provenance["capacity"].source == "client"


def test_two_processes_may_mean_different_chips_by_the_same_number() -> None:
    books = Books()
    first, second = books.open_process(facts(41)), books.open_process(facts(42))
    report(books, first, alloc(1000))
    report(books, second, alloc(64))
    books.sample(
        [region("9000", slot(41, Amounts(dram=1))), region("9001", slot(42, Amounts(dram=1)))],
        (),
        NOW,
    )

    held = {d.unique_id: d.memory.dram.held for d in books.snapshot(NOW).devices}
    assert held == {"9000": 1000, "9001": 64}


def test_a_number_that_two_regions_of_a_process_bear_proves_nothing() -> None:
    books = Books()
    process = books.open_process(facts(41))
    report(books, process, alloc(1000))
    both = [region(uid, slot(41, Amounts())) for uid in ("9000", "9001")]
    books.sample(both, (), NOW)

    devices = books.snapshot(NOW).devices
    assert len(devices) == 3
    assert {d.memory.dram.held for d in devices} == {0, 1000}


def test_a_dead_process_holds_nothing_though_the_reading_is_older_than_its_death() -> None:
    books = Books()
    gone = 2**22 + 1  # beyond every pid that the kernel gives out
    process = reporting(books, gone)
    books.sample([region("9000", slot(gone, Amounts(dram=1000)))], (), NOW)

    books.release(process, NOW)
    assert books.snapshot(NOW).devices[0].memory.dram.held == 0


def test_a_live_process_that_stopped_reporting_is_counted_by_its_slot() -> None:
    books = Books()
    me = os.getpid()
    started = start_time_ns(me)
    process = books.open_process(ProcessFacts(me, started, None, None))
    books.sample([region("9000", slot(me, Amounts(dram=64), started=started))], (), NOW)

    books.release(process, NOW)
    assert books.snapshot(NOW).devices[0].memory.dram.held == 64


def test_peaks_are_the_highest_look_and_start_again_when_told() -> None:
    books = Books()
    for dram in (50, 900, 70):
        books.sample([region("9000", slot(41, Amounts(dram=dram)))], (), NOW + dram)
    use = books.snapshot(NOW).devices[0].memory.dram
    assert (use.held, use.peak, use.peak_time_ns) == (70, 900, NOW + 900)

    books.reset_peak("9000")
    use = books.snapshot(NOW).devices[0].memory.dram
    assert (use.peak, use.peak_time_ns) == (70, None)


def test_a_process_says_how_many_of_its_events_are_included() -> None:
    books = Books()
    process = reporting(books, 41)
    report(books, process, alloc(64, id=2))
    books.sample([region("9000", slot(42, Amounts(dram=64)))], (), NOW)

    assert {p.pid: p.position for p in books.snapshot(NOW).processes} == {41: 2, 42: None}


def test_history_has_both() -> None:
    books = Books()
    reporting(books, 41)
    books.sample([region("9000", slot(42, Amounts(dram=64, cb=8)))], (), NOW)
    books.tick(NOW)

    assert books.history()["9000"].dram == (1064,)
    assert books.history()["9000"].l1_used == (8,)
