"""One chip, several processes: each declares it with the region sizes that it chose."""

from __future__ import annotations

from ttmem.events import EVENT_SIZE, DeviceDeclaration, Event, MemoryKind, Op
from ttmem.hw import device_spec
from ttmem.ledger import Books, ProcessRecord
from ttmem.process_identity import ProcessFacts

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
