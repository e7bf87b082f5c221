"""Failed allocations and cached programs between two readings of a probe's region, in a recording of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.analysis.runs import Run
from tests.recording.rewriting import chunks_of
from ttmem.analysis.history import History
from ttmem.clock import now_ns
from ttmem.errors import BadInput
from ttmem.events import DeviceDeclaration, Event, Flag, KernelType, MemoryKind, Notice, Op
from ttmem.events.probe_news import KindCounter, ProbeCounters, ProbeNews
from ttmem.ledger import Books
from ttmem.procfs import ProcessFacts
from ttmem.recording import Recording
from ttmem.recording.cut import cut
from ttmem.recording.files import FileSink
from ttmem.recording.recorder import Recorder, described
from ttmem.snapshots import Device
from ttmem.web.answers import failures
from ttmem.web.lives import Lives

MS = 1_000_000
FACTS = ProcessFacts(41, 1000, "alice", "python model.py")
CHIP = DeviceDeclaration(0, unique_id="77", l1_banks=2, l1_per_core=4096, l1_bank_size=2048)
MESSAGE = (
    "Out of Memory: Not enough space to allocate 4096 B L1 buffer across 2 banks, where each bank needs to store"
    " 2048 B, but bank size is 2048 B (allocated: 1024 B, free: 1024 B, largest free block: 1024 B)"
)
Reading = tuple[list[Event], int, dict[int, str]]  # events, cached programs at the end, messages


def _program(number: int, time: int) -> list[Event]:
    load = Event(
        Op.KERNEL_LOAD, KernelType.APPLICATION, time=time, id=number, size=64, extra=number
    )
    return [load, Event(Op.PROGRAM_DISPATCH, flags=Flag.CACHE_MISS, time=time, id=number)]


def _failure(time: int) -> Event:
    return Event(Notice.ALLOCATION_FAILED, MemoryKind.L1, time=time, size=4096)


def _news(position: int, reading: Reading) -> ProbeNews:
    events, entries, messages = reading
    kinds = tuple(KindCounter(0, 0, 0, 0) for _ in MemoryKind)
    counted = ProbeCounters(kinds, 0, 0, 0, 0, 0, 0, 0, cache_entries=entries)
    return ProbeNews(
        FACTS,
        "region",
        (CHIP,),
        counters={0: counted},
        messages=messages,
        events=b"".join(event.pack() for event in events),
        position=position,
    )


def _recorded(path: Path, readings: list[Reading], *, confidential: bool = False) -> list[Device]:
    """What a live view showed after each reading."""
    books, shown, position = Books(), list[Device](), 0
    about = described(confidential=confidential)
    recorder = Recorder(books, FileSink(str(path)), about, confidential=confidential)
    for reading in readings:
        position += len(reading[0])
        now = reading[0][-1].time + MS
        books.probed.take([_news(position, reading)], now)
        recorder.tick(now)
        shown.append(books.snapshot(now).devices[0])
    recorder.close()
    return shown


@pytest.fixture
def start() -> int:
    return now_ns()


@pytest.fixture
def readings(start: int) -> list[Reading]:
    """Each has programs; the second has a failure in its middle, and frees its buffer later."""
    held = Event(Op.ALLOC, MemoryKind.L1, time=start + MS, id=9, size=1024)
    freed = Event(Op.FREE, MemoryKind.L1, Flag.KIND_KNOWN, time=start + 90 * MS, id=9)
    unload = Event(Op.KERNEL_UNLOAD, time=start + 91 * MS, id=2, extra=2)
    return [
        ([held, *_program(1, start + 2 * MS)], 1, {}),
        (
            [
                *_program(2, start + 10 * MS),
                *_program(3, start + 11 * MS),
                _failure(start + 20 * MS),
                freed,
                unload,
            ],
            2,
            {start + 20 * MS: MESSAGE},
        ),
    ]


def test_at_the_instant_of_a_failure_it_is_what_a_live_reading_would_have_shown(
    tmp_path: Path, start: int, readings: list[Reading]
) -> None:
    first, (events, _, messages) = readings
    failed_at = next(n for n, event in enumerate(events) if event.op == Notice.ALLOCATION_FAILED)
    _recorded(tmp_path / "run", readings)
    live = _recorded(tmp_path / "short", [first, (events[: failed_at + 1], 3, messages)])[-1]

    with Recording(str(tmp_path / "run")) as recording:
        (then,) = recording.at("oom").devices
        position = recording.instant("oom").position
        (before,) = recording.at(f"#{position - 1}").devices
        (end,) = recording.at(f"#{position + 4}").devices

    assert (then.failed_allocations, then.kernels.cache_entries) == (1, 3)
    assert (live.failed_allocations, live.kernels.cache_entries) == (1, 3)
    assert then.anomalies == live.anomalies
    assert "exhausted: 1.0 KiB missing in each bank" in then.anomalies[0].text
    assert (before.failed_allocations, before.anomalies) == (0, ())
    assert (end.failed_allocations, end.kernels.cache_entries) == (1, 2)


def test_programs_that_are_loaded_between_two_readings_are_cached_from_their_first_dispatch_on(
    tmp_path: Path, readings: list[Reading]
) -> None:
    _recorded(tmp_path / "run", readings)

    with Recording(str(tmp_path / "run")) as recording:
        kernels = [recording.at(f"41#{count}").devices[0].kernels for count in range(4, 11)]

    assert [counts.cache_misses for counts in kernels] == [1, 2, 2, 3, 3, 3, 3]
    assert [counts.cache_entries for counts in kernels] == [1, 2, 2, 3, 3, 3, 2]


def test_a_failure_between_two_readings_adds_to_those_before(
    tmp_path: Path, start: int, readings: list[Reading]
) -> None:
    times = [start + (30 + n) * MS for n in range(2)]
    later: Reading = ([_failure(time) for time in times], 2, dict.fromkeys(times, MESSAGE))
    live = _recorded(tmp_path / "run", [*readings, later])[-1]

    with Recording(str(tmp_path / "run")) as recording:
        (second,) = recording.at("oom:2").devices
        (third,) = recording.at("oom:3").devices

    assert (second.failed_allocations, third.failed_allocations) == (2, 3)
    assert second.anomalies[-1].text.startswith("2 allocations FAILED: the last one 4.0 KiB of L1")
    assert third.anomalies == live.anomalies


def test_a_failure_in_a_confidential_recording_names_no_command(
    tmp_path: Path, readings: list[Reading]
) -> None:
    _recorded(tmp_path / "run", readings, confidential=True)

    with Recording(str(tmp_path / "run")) as recording:
        (anomaly,) = recording.at("oom").devices[0].anomalies
        assert anomaly == recording.at("end").devices[0].anomalies[0]

    assert anomaly.text.endswith("; pid 41")


@pytest.mark.parametrize(
    "folder",
    [
        "/home/john doe/secret project",
        "/home/o'brien/secret",
        '/srv/"secret" [x] (y)/z',
        "/srv/a:5 secret/b.c:7 d",
        "/srv/acme, secret inc; ltd./x",
        "~/my secret",
        "proj/secret",
        "my proj/the secret",
    ],
)
def test_no_directory_stays_in_a_confidential_recording(
    folder: str, start: int, tmp_path: Path
) -> None:
    strings = {
        1: "ttnn.add",
        2: f"{folder}/x.py:3 f\n{folder}/y.py:14 <module>",
        3: "bmm_metal2/trisc0",
    }
    failed = _failure(start)._replace(name=1, site=2)
    message = f"TT_FATAL @ /srv/secret dir/bank.cpp:7: {MESSAGE}"
    news = replace(_news(1, ([failed], 0, {start: message})), strings=strings)
    books, path = Books(), tmp_path / "run.ttmem"
    recorder = Recorder(books, FileSink(str(path)), described(), confidential=True)
    books.probed.take([news], start + MS)
    recorder.tick(start + MS)
    recorder.close()

    written = b"".join(payload for _, payload in chunks_of(path.read_bytes()))
    with Recording(str(path)) as recording:
        (process,) = recording.processes
        (anomaly,) = recording.at("end").devices[0].anomalies
        messages = recording.messages()
    assert b"secret" not in written
    assert process.strings == {**strings, 2: "x.py:3 f\ny.py:14 <module>"}
    assert anomaly.text.startswith("an allocation FAILED: 4.0 KiB of L1 for ttnn.add, x.py:3 f")
    assert messages == {start: f"TT_FATAL @ bank.cpp:7: {MESSAGE}"}


def test_a_report_has_the_time_of_the_marker_for_a_failure(
    tmp_path: Path, start: int, readings: list[Reading]
) -> None:
    _recorded(tmp_path / "run", readings)

    with Recording(str(tmp_path / "run")) as recording:
        history = History(recording)
        (answer,) = failures(history, Lives(history, ["77"], lambda position: None))
        (marker,) = (marker for marker in recording.markers if marker.kind == "failure")
        assert answer["time"] == marker.time_ns - recording.info().started_ns
    assert marker.time_ns == start + 20 * MS


def test_a_process_starts_with_its_first_event(
    tmp_path: Path, start: int, readings: list[Reading]
) -> None:
    _recorded(tmp_path / "run", readings)

    with Recording(str(tmp_path / "run")) as recording:
        (marker,) = (marker for marker in recording.markers if marker.kind == "start")
        assert max(start + MS, recording.info().started_ns) == marker.time_ns


def test_a_recording_of_a_probe_alone_misses_nothing_after_its_process_has_ended(
    tmp_path: Path, readings: list[Reading]
) -> None:
    books = Books()
    last = replace(_news(len(readings[0][0]), readings[0]), ended=True)
    books.probed.take([last], now_ns())
    (device,) = books.snapshot(now_ns()).devices

    assert device.provenance["l1"].misses is None


def test_a_part_that_begins_between_a_failure_and_the_next_context_shows_the_failure(
    tmp_path: Path, start: int, readings: list[Reading]
) -> None:
    """A context follows the events of a reading: here by a millisecond, in which the part begins."""
    whole, part = tmp_path / "whole", tmp_path / "part"
    later: Reading = (_program(7, start + 200 * MS), 3, {})
    _recorded(whole, [*readings, later])
    instants = [f"@{start + 91 * MS + MS // 2}", f"@{start + 150 * MS}", "end"]

    with Recording(str(whole)) as recording:
        sink = FileSink(str(part))
        cut(recording, recording.instant(instants[0]), recording.instant("end"), sink)
        sink.close()
        expected = [recording.at(at) for at in instants]
    with Recording(str(part)) as recording:
        found = [recording.at(at) for at in instants]

    assert [snapshot.devices[0].failed_allocations for snapshot in expected] == [1, 1, 1]
    assert [snapshot.devices for snapshot in found] == [snapshot.devices for snapshot in expected]
    assert [snapshot.processes for snapshot in found] == [
        snapshot.processes for snapshot in expected
    ]


def test_every_failed_allocation_of_a_mesh_can_be_reached_and_counts_once(tmp_path: Path) -> None:
    name = str(tmp_path / "mesh.ttmem")
    with Run(Path(name)) as run:
        for size in (4096, 8192):
            run.alloc(size)
            run.now += MS
            for device in (0, 1):
                failed = Event(Notice.ALLOCATION_FAILED, MemoryKind.L1, device=device, size=size)
                data = failed._replace(time=run.now).pack()
                process = run.books.processes[run.process]
                run.books.apply(process, data, 0, len(data), run.now)

    with Recording(name) as recording:
        first, second, last = (
            recording.at(at).devices[0].memory.dram.count for at in ("oom", "oom:2", "oom:last")
        )
        said = [recording.instant(at).remark for at in ("oom", "oom:last")]
        with pytest.raises(BadInput, match="2 allocations failed"):
            recording.instant("oom:3")

    assert (first, second, last) == (1, 2, 2)
    assert "failed allocation 1 of 2" in said[0]
    assert "failed allocation 2 of 2" in said[1]
