"""What a recording holds at a position is what the ledger held there."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ledger.test_journal import EVENTS, answers
from tests.patience import wait_until
from ttmem.analysis.history import History
from ttmem.clock import now_ns
from ttmem.events import DeviceDeclaration, Event, Flag, MemoryKind, Notice, Op
from ttmem.ledger import Books
from ttmem.procfs import ProcessFacts
from ttmem.recording import Instant, Recording
from ttmem.recording.files import FileSink
from ttmem.recording.format import ChunkType
from ttmem.recording.recorder import Recorder, described
from ttmem.recording.replay import Replay
from ttmem.snapshots import DETAILS, Question, to_json

NOW = 1_800_000_000_000_000_000
KNOWN = EVENTS.map(lambda event: event._replace(op=min(event.op, 127)))  # a journal has no others
BATCHES = st.lists(
    st.tuples(st.integers(0, 2), st.lists(KNOWN, min_size=1, max_size=8)), max_size=20
)


def _books() -> Books:
    books = Books()
    for pid in (41, 42, 43):
        _open(books, pid)
    return books


def _open(books: Books, pid: int) -> None:
    facts = ProcessFacts(pid=pid, start_time_ns=pid, user="u", command="python model.py")
    process = books.open_process(facts)
    for number in range(3):
        books.declare(process, DeviceDeclaration(number, unique_id=f"chip{number}", board="n300"))


def _recorder(books: Books, path: Path) -> Recorder:
    return Recorder(books, FileSink(str(path), overwrite=True), described("test"))


def _apply(books: Books, process: int, events: list[Event], now: int = NOW) -> None:
    data = b"".join(event.pack() for event in events)
    books.apply(books.processes[process], data, 0, len(data), now)


def _replay(recording: Recording) -> Replay:
    return Replay(recording._chunks, recording.records)


@settings(max_examples=30, deadline=None)
@given(BATCHES, BATCHES, st.randoms(use_true_random=False))
def test_every_position_has_the_rows_that_the_ledger_had_there(
    tmp_path_factory: pytest.TempPathFactory,
    before: list[tuple[int, list[Event]]],
    during: list[tuple[int, list[Event]]],
    chance: Random,
) -> None:
    books = _books()
    for process, events in before:
        _apply(books, process, events)
    path = tmp_path_factory.mktemp("law") / "law.ttmem"
    recorder = _recorder(books, path)
    expected = [(recorder.position, answers(books.native))]
    for process, events in during:
        _apply(books, process, events)
        expected.append((recorder.position, answers(books.native)))
    recorder.close()

    with Recording(str(path)) as recording:
        replay = _replay(recording)
        chance.shuffle(expected)
        for position, rows in expected:
            replay.go_to(position)
            assert replay.position == position
            assert answers(replay.ledger) == rows


@settings(max_examples=30, deadline=None)
@given(BATCHES, st.randoms(use_true_random=False))
def test_a_snapshot_of_a_recording_is_what_the_live_view_showed(
    tmp_path_factory: pytest.TempPathFactory,
    batches: list[tuple[int, list[Event]]],
    chance: Random,
) -> None:
    books = _books()
    path = tmp_path_factory.mktemp("law") / "snapshots.ttmem"
    recorder = _recorder(books, path)
    expected = []
    for number, (process, events) in enumerate(batches):
        now = NOW + 10 * number
        books.define_string(books.processes[process], 7, f"name {chance.randrange(3)}")
        books.define_string(books.processes[process], 9, f"/src/model.py:{number} forward")
        if chance.random() < 0.1:
            books.release(books.processes[process], now)
            _open(books, 50 + number)
        _apply(books, process, events, now)
        books.tick(now)
        recorder.tick(now + 5)
        details = books.details(Question(DETAILS)).add_all(books.snapshot(now + 5))
        expected.append((Instant(recorder.position, now + 5, now + 5), to_json(details)))
    recorder.close()

    with Recording(str(path)) as recording:
        chance.shuffle(expected)
        for instant, shown in expected:
            assert to_json(recording.snapshot(instant, Question(DETAILS))) == shown


def test_events_come_after_a_description_that_came_late(tmp_path: Path) -> None:
    # given: a device that was opened before anything was known of it
    books = Books()
    process = books.open_process(ProcessFacts(pid=41, start_time_ns=41, user="u", command="model"))
    books.declare(process, DeviceDeclaration(0, unique_id="7"))
    recorder = _recorder(books, tmp_path / "late.ttmem")
    recorder.tick(NOW)
    books.declare(process, DeviceDeclaration(0, unique_id="7", board="p150", l1_banks=130))
    _apply(books, 0, [_alloc(1)])
    position = recorder.position
    _apply(books, 0, [_alloc(2)])
    recorder.close()

    with Recording(str(tmp_path / "late.ttmem")) as recording:
        (device,) = recording.snapshot(Instant(position, NOW, NOW), Question()).devices
    assert device.board == "p150"


def _alloc(number: int, **fields: int) -> Event:
    return Event(Op.ALLOC, MemoryKind.DRAM, id=number, size=1024, time=NOW + number)._replace(
        **fields
    )


def test_long_batches_keep_their_process_and_their_source_position(tmp_path: Path) -> None:
    books = _books()
    recorder = _recorder(books, tmp_path / "a.ttmem")
    _apply(books, 1, [_alloc(number) for number in range(10_000)], NOW + 10_000)
    recorder.close()

    with Recording(str(tmp_path / "a.ttmem")) as recording:
        batches = list(recording.batches())

    events = b"".join(batch.events for batch in batches)
    assert [Event.unpack(events, at).id for at in range(0, len(events), 64)] == list(range(10_000))
    assert {(batch.process.pid, batch.process.devices[0]) for batch in batches} == {(42, "chip0")}
    assert len(batches) == 3


@pytest.mark.parametrize("sizes", [(5000, 100), (4000, 300), (3000, 3000, 2000), (100, 4095)])
def test_the_list_of_events_does_not_depend_on_how_they_arrived(
    tmp_path: Path, sizes: tuple[int, ...]
) -> None:
    books, first = _books(), 0
    recorder = _recorder(books, tmp_path / "a.ttmem")
    for size in sizes:
        _apply(books, 1, [_alloc(number) for number in range(first, first + size)], NOW + 10_000)
        first += size
    live = books.details(Question(("events",))).add_all(books.snapshot(NOW)).events
    recorder.close()

    with Recording(str(tmp_path / "a.ttmem")) as recording:
        recorded = recording.at("end", ["events"]).events

    assert recorded == live
    assert [event.id for event in live or ()] == [*range(max(0, first - 4096), first)]


def test_an_instant_is_found_by_time_and_by_marker(tmp_path: Path) -> None:
    books = _books()
    recorder = _recorder(books, tmp_path / "a.ttmem")
    books.native.follow_table(0)  # notices are taken from probes only
    books.define_string(books.processes[0], 7, "prefill")
    _apply(
        books,
        0,
        [
            _alloc(1),
            Event(Notice.PHASE_ENTERED, time=NOW + 2, name=7),
            _alloc(3),
            Event(Notice.ALLOCATION_FAILED, MemoryKind.L1, time=NOW + 4, size=1 << 20),
            _alloc(5),
        ],
        NOW + 100,
    )
    recorder.close()

    with Recording(str(tmp_path / "a.ttmem")) as recording:
        markers = [(m.kind, m.text, m.time_ns - NOW, m.pid) for m in recording.markers]
        alive = []
        for when in ("start", "oom", "end"):
            replay = _replay(recording)
            replay.go_to(recording.instant(when).position)
            alive.append(replay.ledger.live())

    assert [marker for marker in markers if marker[0] != "start"] == [
        ("phase", "prefill", 2, 41),
        ("failure", "1.0 MiB of L1", 4, 41),
    ]
    assert alive == [0, 2, 3]


def test_a_failure_that_the_ledger_rejects_is_no_marker(tmp_path: Path) -> None:
    """Only a probe sees failed allocations; on a socket anybody could claim one, and fill the disk with kept files."""
    books = _books()
    recorder = _recorder(books, tmp_path / "a.ttmem")
    failed = Event(Notice.ALLOCATION_FAILED, MemoryKind.L1, time=NOW + 4, size=1 << 20)
    _apply(books, 0, [_alloc(1), failed], NOW + 100)
    recorder.close()

    with Recording(str(tmp_path / "a.ttmem")) as recording:
        kinds = {marker.kind for marker in recording.markers}

    assert (books.native.rejected(), recorder.failures, kinds) == (1, 0, {"start"})


def test_an_event_of_a_mesh_is_one_event_of_its_process_on_every_device(tmp_path: Path) -> None:
    books = _books()
    recorder = _recorder(books, tmp_path / "a.ttmem")
    events = [
        _alloc(number, device=device, flags=Flag.SAME_SLOT if device else 0)
        for number in range(3000)
        for device in range(3)
    ]
    _apply(books, 0, events, NOW + 10_000)  # more than one piece
    recorder.close()

    with Recording(str(tmp_path / "a.ttmem")) as recording:
        held = [
            len(recording.at(f"41#{count}", ["buffers"]).buffers or ()) for count in (1, 1700, 3000)
        ]
        assert held == [3, 5100, 9000]
        (process, *_) = recording.at("41#1700").processes
        assert process.position == 1700


def test_a_peak_that_only_counters_tell_is_found_in_their_samples(tmp_path: Path) -> None:
    books = Books()
    recorder = _recorder(books, tmp_path / "a.ttmem")
    start = now_ns()
    samples = [[start + second * 10**9, 10 * second, 0, 0, 0, 0, 5] for second in (1, 3, 2)]
    recorder._writer.document(ChunkType.HISTORY, {"chip": samples}, start)
    recorder.close()

    with Recording(str(tmp_path / "a.ttmem")) as recording:
        instant = recording.instant("peak:dram")
        remarks = [remark.kind for remark in recording.at("peak:dram").remarks]
        nothing = recording.instant("peak:trace")

    assert instant.time_ns == start + 3 * 10**9
    assert "highest sample of the counters" in instant.remark
    assert "instant" in remarks
    assert "so it has no peak" in nothing.remark


def _free(number: int, **fields: int) -> Event:
    return _alloc(number, op=Op.FREE, size=0, **fields)


def test_the_peak_of_a_recording_that_starts_in_the_midst_of_a_run_is_the_highest_in_it(
    tmp_path: Path,
) -> None:
    books = _books()
    _apply(books, 0, [_alloc(1, size=1 << 30), _alloc(2, size=64)], NOW + 9)
    _apply(books, 0, [_free(1)], NOW + 9)
    recorder = _recorder(books, tmp_path / "a.ttmem")
    _apply(books, 0, [_alloc(3), _alloc(4, device=1, size=5000), _alloc(5), _free(3)], NOW + 9)
    _apply(books, 0, [_free(4, device=1), _free(5)], NOW + 9)
    recorder.close()

    with Recording(str(tmp_path / "a.ttmem")) as recording:
        instant = recording.instant("peak:dram")
        shown = recording.at("peak:dram")
        (peak,) = (one for one in History(recording).peaks if one.bytes == 5000)
        nothing = recording.instant("peak:l1")

    assert [device.memory.dram.held for device in shown.devices] == [64 + 1024, 5000, 0]
    assert instant.position == peak.position
    assert (
        "the highest in this recording, 4.9 KiB: the peak of 1.0 GiB is from before"
        in instant.remark
    )
    assert "so it has no peak" in nothing.remark


def test_a_peak_in_missing_records_is_not_taken_for_the_state_before_them(tmp_path: Path) -> None:
    books, path = _books(), tmp_path / "a.ttmem"
    recorder = _recorder(books, path)
    _apply(books, 0, [_alloc(1), _alloc(2), _free(1)], NOW + 9)
    recorder.end_file(NOW + 9)
    wait_until(lambda: recorder.written().records == recorder.position)
    kept = path.stat().st_size
    _apply(books, 0, [_alloc(3, size=1 << 30), _free(3)], NOW + 9)
    recorder.end_file(NOW + 9)
    wait_until(lambda: recorder.written().records == recorder.position)
    torn = path.stat().st_size
    recorder._key_frame(NOW + 9)
    _apply(books, 0, [_alloc(4)], NOW + 9)
    recorder.close()
    data = path.read_bytes()
    path.write_bytes(data[:kept] + data[torn:])

    with Recording(str(path)) as recording:
        held = recording.at("peak:dram").devices[0].memory.dram.held
        remark = recording.instant("peak:dram").remark

    assert held == 2 * 1024
    assert "or from records that are missing" in remark


@pytest.mark.parametrize("before", [0, 4092])
def test_all_devices_of_a_mesh_are_at_their_peak_together(tmp_path: Path, before: int) -> None:
    """Also if the events of one allocation are in two batches of the file."""
    books = _books()
    recorder = _recorder(books, tmp_path / "a.ttmem")
    first = [_alloc(number + 10, size=1) for number in range(before)]
    mesh = [
        _alloc(1, kind=MemoryKind.L1, device=device, flags=flags)
        for device, flags in ((2, 0), (0, Flag.SAME_SLOT), (1, Flag.SAME_SLOT))
    ]
    freed = [_free(1, device=0), _free(1, device=1), _free(1, device=2)]
    _apply(books, 0, [*first, _alloc(2), *mesh], NOW + 9999)
    _apply(books, 0, freed, NOW + 9999)
    recorder.close()

    with Recording(str(tmp_path / "a.ttmem")) as recording:
        for when in ("peak:l1", "peak:l1_used"):
            shown = recording.at(when)
            assert [device.memory.l1.held for device in shown.devices] == [1024] * 3
            assert [device.l1_peak for device in shown.devices] == [1024] * 3
        positions = {one.position for one in History(recording).peaks if one.memory == "l1"}
        assert positions == {recording.instant("peak:l1").position}


def test_a_reading_in_which_a_process_only_goes_on_writes_no_context(tmp_path: Path) -> None:
    """Ten readings a second for weeks would make millions of chunks. The position of the process is known anyway."""
    books = _books()
    recorder = _recorder(books, tmp_path / "a.ttmem")
    start = now_ns()
    expected = []
    for number in range(100):
        now = start + number * 10**8
        _apply(books, 0, [_alloc(number, time=now)], now)
        books.tick(now)
        recorder.tick(now)
        (position, *_) = (process.position for process in books.snapshot(now).processes)
        expected.append((Instant(recorder.position, now, now), position))
    recorder.close()

    with Recording(str(tmp_path / "a.ttmem")) as recording:
        found = [
            (instant, recording.snapshot(instant, Question(())).processes[0].position)
            for instant, _ in expected
        ]
        contexts = recording._chunks.count(ChunkType.CONTEXT)
    assert found == expected
    assert contexts <= 15
