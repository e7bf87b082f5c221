"""Watched processes in the books: repetitions, other sources of the same process, and counters that disagree."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttmem.events import Amounts, DeviceDeclaration, Event, Flag, KernelType, MemoryKind, Notice, Op
from ttmem.events.probe_news import KilledProcess, KindCounter, ProbeCounters, ProbeNews
from ttmem.ledger import Books
from ttmem.procfs import ProcessFacts
from ttmem.recording.files import FileSink
from ttmem.recording.recorder import Recorder, described
from ttmem.snapshots import LeftBehind, Question
from ttmem.wire.rows import ProgramRow, flat_rows

FACTS = ProcessFacts(41, 1000, "alice", "python model.py")
CHIP = DeviceDeclaration(0, unique_id="77", l1_banks=64, l1_bank_size=1 << 20, dram_banks=8)
NOTHING = KindCounter(0, 0, 0)


def counted(dram: int = 0) -> dict[int, ProbeCounters]:
    kinds = (KindCounter(dram, dram, 1), *[NOTHING] * (len(MemoryKind) - 1))
    return {0: ProbeCounters(kinds, 0, 0, 0, 0, 0, 0, 0)}


def alloc(id: int, size: int = 100) -> bytes:
    return Event(Op.ALLOC, MemoryKind.DRAM, id=id, size=size).pack()


def free(id: int) -> bytes:
    return Event(Op.FREE, MemoryKind.DRAM, Flag.KIND_KNOWN, id=id).pack()


def news(events: bytes = b"", **more: object) -> ProbeNews:
    told = ProbeNews(FACTS, "region", devices=(CHIP,), events=events)
    return replace(told, **more)  # type: ignore[arg-type]


def held(books: Books) -> int:
    return books.snapshot(1).devices[0].memory.dram.held


@given(
    st.lists(
        st.tuples(st.booleans(), st.integers(1, 6)),
        max_size=30,
    ),
    st.integers(0, 30),
)
def test_a_table_that_was_read_in_the_middle_of_events_leaves_what_the_events_alone_leave(
    steps: list[tuple[bool, int]], read_at: int
) -> None:
    # Ids are used once: the n-th life of a slot has an id of its own.
    lives: dict[int, int] = {}
    made = []
    for born, slot in steps:
        if born and lives.get(slot, 0) % 2 == 0:
            lives[slot] = lives.get(slot, 0) + 1
            made.append(alloc(slot * 100 + lives[slot]))
        elif not born and lives.get(slot, 0) % 2 == 1:
            made.append(free(slot * 100 + lives[slot]))
            lives[slot] += 1
    alone, late = Books(), Books()
    alone.probed.take([news(b"".join(made))], 1)

    # The table is ahead of its events: it has what comes later, and not what will have been freed.
    events = [Event.unpack(record) for record in made]
    freed = {event.id for event in events if event.op == Op.FREE}
    table = [event for event in events if event.op == Op.ALLOC and event.id not in freed]
    live = b"".join(event._replace(flags=Flag.RESENT).pack() for event in table)
    late.probed.take([news(b"".join(made[read_at:]), live=live)], 1)

    assert held(late) == held(alone)
    assert late.findings() == []


def test_circular_buffers_and_kernels_that_the_table_had_are_not_counted_twice() -> None:
    books = Books()
    circular = Event(Op.CB_ALLOC, id=9, size=400, extra=5, address=4096)
    kernel = Event(Op.KERNEL_LOAD, KernelType.APPLICATION, id=8, size=50, extra=5, number=2)
    live = circular._replace(flags=Flag.RESENT).pack() + kernel._replace(flags=Flag.RESENT).pack()

    books.probed.take([news(circular.pack() + kernel.pack(), live=live)], 1)

    (device,) = books.snapshot(1).devices
    assert (device.memory.cb.demand, device.memory.cb.count) == (400, 1)
    assert (device.kernels.footprint.application, device.kernels.dispatches) == (100, 0)


def test_programs_carry_the_operation_that_made_them() -> None:
    books = Books()
    kernel = Event(Op.KERNEL_LOAD, KernelType.APPLICATION, id=8, size=50, extra=5, number=2)
    named = Event(Op.PROGRAM_NAME, id=5, name=3, site=4)

    books.probed.take([news(live=kernel.pack() + named.pack())], 1)

    (row,) = flat_rows(ProgramRow, books.native.programs())
    assert (row.id, row.name, row.site) == (5, 3, 4)


@pytest.mark.parametrize("socket_first", [True, False])
def test_a_process_that_also_reports_over_a_socket_is_counted_once(socket_first: bool) -> None:
    books = Books()

    def socket() -> None:
        process = books.open_process(FACTS, "socket")
        books.declare(process, CHIP)
        books.apply(process, alloc(1, 5000), 0, 64, 1)

    if socket_first:
        socket()
    books.probed.take([news(alloc(1, 4000))], 1)
    if not socket_first:
        socket()

    picture = books.snapshot(1)
    assert picture.devices[0].memory.dram.held == 4000
    (process,) = picture.processes
    assert (process.sources, process.devices["77"].dram) == (("probe", "socket"), 4000)


def test_counters_that_disagree_lead_to_a_rebuild_and_then_to_an_anomaly() -> None:
    books = Books()
    said = news(alloc(1, 100), counters=counted(dram=150))
    for _ in range(3):
        assert books.snapshot(1).devices == () or not books.snapshot(1).devices[0].anomalies
        books.probed.take([said], 1)
        said = replace(said, events=b"", devices=())

    assert books.probed.doubted() == ["region"]
    for _ in range(3):
        books.probed.take([said], 1)

    assert books.probed.doubted() == []
    (anomaly,) = books.snapshot(1).devices[0].anomalies
    assert (anomaly.kind, anomaly.pid, anomaly.bytes) == ("probe_counters", 41, 50)


def test_a_difference_that_passes_is_none() -> None:
    books = Books()
    books.probed.take([news(alloc(1, 100), counters=counted(dram=150))], 1)
    for _ in range(5):
        books.probed.take([replace(news(counters=counted(dram=100)), devices=())], 1)

    assert books.probed.doubted() == []
    assert books.snapshot(1).devices[0].anomalies == ()


def test_an_idle_program_adds_nothing_to_a_recording(tmp_path: Path) -> None:
    books = Books()
    recorder = Recorder(books, FileSink(str(tmp_path / "run.ttmem")), described())
    books.probed.take([news(alloc(1), counters=counted(100))], 1)

    def grows_by(told: ProbeNews) -> int:
        before = recorder.position
        books.probed.take([told], 2)
        return recorder.position - before

    idle = replace(news(counters=counted(100)), devices=())
    dispatched = {0: replace(counted(100)[0], dispatches=7)}
    assert [grows_by(idle) for _ in range(3)] == [0, 0, 0]
    assert grows_by(replace(idle, counters=dispatched)) > 0
    assert books.snapshot(3).devices[0].kernels.dispatches == 7
    assert grows_by(replace(idle, events=alloc(2), counters=dispatched)) > 2  # after events: again
    recorder.close()


def test_kernel_binaries_are_those_that_the_probe_saw() -> None:
    books = Books()
    (figures,) = counted().values()
    books.probed.take([news(counters={0: replace(figures, binaries=4096)})], 1)

    assert books.snapshot(1).devices[0].kernels.dram_binaries == 4096


def test_notices_are_listed_and_not_accounted() -> None:
    books = Books()
    books.probed.take([news(Event(Notice.DEVICE_OPENED, device=0).pack())], 1)

    (event,) = books.details(Question(("events",))).add(books.snapshot(1)).events or ()
    assert (event.op, event.device) == ("DEVICE_OPENED", "77")
    assert books.snapshot(1).losses.rejected_records == 0


def left_by(*words: ProbeNews | None, pid: int = 41) -> Amounts:
    """What is left behind of a killed process that counters still name, by its region."""
    books = Books()
    heard = iter(words)
    books.probed.take([], 1, [KilledProcess(41, "region", lambda: next(heard))])
    ghost = LeftBehind(pid, "python", None, {"77": Amounts(7, 0, 0, 0, 0)}, ghost=True)
    books.probed.better(ghost)
    left = books.probed.better(ghost)  # the region is read once
    assert left.ghost
    return left.devices["77"]


def test_what_a_killed_process_left_is_what_its_region_says() -> None:
    circular = Event(Op.CB_ALLOC, id=9, size=400, extra=5, address=4096)

    assert left_by(news(live=alloc(1, 4000) + circular.pack())) == Amounts(4000, 0, 0, 0, 400)


def test_what_a_killed_process_left_beyond_the_table_is_in_its_counters() -> None:
    told = news(live=alloc(1, 4000), unlisted=1, counters=counted(dram=9000))

    assert left_by(told) == Amounts(9000, 0, 0, 0, 0)


@pytest.mark.parametrize(
    "words", [None, news(live=alloc(1), tracking=False), news(live=alloc(1), unseen=1)]
)
def test_a_region_that_has_not_seen_all_says_nothing_of_what_was_left(
    words: ProbeNews | None,
) -> None:
    assert left_by(words) == Amounts(7, 0, 0, 0, 0)


def test_what_another_process_left_is_as_counters_say() -> None:
    assert left_by(pid=42) == Amounts(7, 0, 0, 0, 0)
