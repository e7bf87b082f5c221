"""One chip, several processes: each declares it with the region sizes that it chose."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.ledger.oracle import NOW, region, slot
from ttmem.events import EVENT_SIZE, Amounts, DeviceDeclaration, Event, MemoryKind, Op
from ttmem.hw import device_spec
from ttmem.ledger import Books, ProcessRecord
from ttmem.procfs import ProcessFacts

TRACE = 64 << 20


def open_process(books: Books, pid: int, trace_region: int) -> ProcessRecord:
    process = books.open_process(ProcessFacts(pid, 0, None, None))
    spec = device_spec("p150", trace_region_size=trace_region)
    books.declare(process, DeviceDeclaration.from_spec(spec, 0, "9000"))
    return process


def test_other_region_sizes_make_no_false_anomaly() -> None:
    books = Books()
    traced, plain = open_process(books, 1, TRACE), open_process(books, 2, 0)
    event = Event(Op.ALLOC, MemoryKind.TRACE, id=1, size=4096)
    books.apply(traced, event.pack(), 0, EVENT_SIZE, 1)

    (device,) = books.snapshot(1).devices
    assert device.memory.trace.capacity == TRACE
    assert device.anomalies == ()

    books.release(traced, 2)
    assert books.snapshot(3).devices[0].memory.trace.capacity == 0
    books.release(plain, 4)
    assert books.snapshot(5).devices[0].l1_capacity == 110 * 1_461_120


def test_what_a_client_declares_goes_before_what_the_server_was_told() -> None:
    class Told:
        def declaration(self, logical_id: int) -> DeviceDeclaration:
            return DeviceDeclaration(logical_id, "9000", l1_capacity=1)

        def known_ids(self) -> list[int]:
            return [0]

        def chips(self) -> int:
            return 1

    books = Books(Told())
    assert books.snapshot(1).devices[0].l1_capacity == 1

    open_process(books, 1, 0)
    (device,) = books.snapshot(2).devices
    assert device.l1_capacity == 110 * 1_461_120
    assert device.provenance["capacity"].source == "client"


def test_where_circular_buffers_begin_says_how_long_the_ring_is() -> None:
    """Of whoever opened it with a `worker_l1_size`; where the ring begins, the host knows by the version."""
    books = Books()
    process = books.open_process(ProcessFacts(1, 0, None, None))
    opened = DeviceDeclaration(0, "9000", arch="blackhole", l1_banks=110, cb_base=572_864)
    books.declare(process, opened)
    host = DeviceDeclaration(0, "9000", board="p150", arch="blackhole", ring_base=41_088)

    books.sample([replace(region("9000"), declaration=host)], (), NOW)

    (device,) = books.snapshot(NOW).devices
    assert device.kernels.ring.capacity == 110 * (572_864 - 41_088)


@pytest.mark.parametrize(("held", "kinds"), [(200 << 20, []), (211 << 20, ["over_capacity"])])
def test_no_opening_can_have_more_than_all_cores_together(held: int, kinds: list[str]) -> None:
    host = DeviceDeclaration(0, "9000", l1_capacity_default=160_723_200, l1_most=210 << 20)
    sample = region("9000", slot(7, Amounts(l1=held)))
    books = Books()

    books.sample([replace(sample, declaration=host)], (), NOW)

    (device,) = books.snapshot(NOW).devices
    assert (device.l1_capacity, device.l1_capacity_default) == (None, 160_723_200)
    assert [anomaly.kind for anomaly in device.anomalies] == kinds


def test_the_largest_of_everything_that_several_processes_declare_still_makes_a_picture() -> None:
    books = Books()
    for number, declared in enumerate(
        (
            {"dram_base": 1 << 43, "dram_bank_size": 1 << 43, "cb_base": 1 << 43, "l1_bank_size": 1 << 43},
            {"trace_bank_size": 1 << 44, "l1_small_bank_size": 1 << 44, "cb_base": 0},
            {"cb_base": 1 << 44, "dram_base": 1 << 44, "l1_per_core": 1 << 44},
        )
    ):  # fmt: skip
        process = books.open_process(ProcessFacts(number + 1, number, "user", "python"))
        document = {
            "logical_id": 0,
            "unique_id": "9000",
            "dram_banks": 1,
            "l1_banks": 1,
            **declared,
        }
        books.declare(process, DeviceDeclaration.from_json(document))

    assert [device.unique_id for device in books.snapshot(1).devices] == ["9000"]
