"""Which instant an export of live memory shows: the one that is asked for, else the fullest of its range."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.exporters.history import MS, NOW, alloc, free, opened
from tests.exporters.trace_processor import TraceProcessor
from tests.ledger.oracle import region, slot
from ttmem.commands import main
from ttmem.events import Amounts, Event, MemoryKind
from ttmem.ledger import Books
from ttmem.recording.files import FileSink
from ttmem.recording.recorder import Recorder, described

SECOND = 1000 * MS
Step = list[Event]


def recorded(path: Path, steps: list[Step]) -> Path:
    """One step a second."""
    books = Books()
    recorder = Recorder(books, FileSink(str(path)), described("test"))
    process = opened(books, 41)
    for second, step in enumerate(steps, 1):
        now = NOW + second * SECOND
        data = b"".join(event._replace(time=now).pack() for event in step)
        books.apply(process, data, 0, len(data), now)
        books.tick(now)
        recorder.tick(now)
    recorder.close()
    return path


@pytest.fixture
def stacks(tmp_path: Path) -> Callable[..., dict[str, int]]:
    """Exports stacks, and adds them up by kind of memory."""

    def export(file: Path, *options: str) -> dict[str, int]:
        out = tmp_path / "stacks"
        assert main(["export", str(file), "--to", "collapsed", "-o", str(out), *options]) == 0
        sums: dict[str, int] = {}
        for line in out.read_text().splitlines():
            path, _, held = line.rpartition(" ")
            kind = path.split(";")[1]
            sums[kind] = sums.get(kind, 0) + int(held)
        out.unlink()
        return sums

    return export


def l1(number: int, per_bank: int) -> Event:
    return alloc(number, MemoryKind.L1, per_bank, 500_000 + 65536 * number, name=1, site=11)


def test_without_a_time_it_is_the_peak_of_the_range(
    tmp_path: Path, stacks: Callable[..., dict[str, int]]
) -> None:
    steps = [[l1(1, 64)], [l1(2, 128)], [free(2, MemoryKind.L1)], [l1(3, 4096)], [], []]
    file = recorded(tmp_path / "run.ttmem", steps)

    assert stacks(file) == {"L1": 64 * (64 + 4096)}
    assert stacks(file, "--until", f"@{NOW + 3 * SECOND}") == {"L1": 64 * (64 + 128)}
    assert stacks(file, "--from", f"@{NOW + 5 * SECOND}") == {"L1": 64 * (64 + 4096)}


def test_a_program_without_l1_is_shown_at_its_peak_of_dram(
    tmp_path: Path, stacks: Callable[..., dict[str, int]]
) -> None:
    steps = [[alloc(1, MemoryKind.DRAM, 4096, 1 << 20, site=12)], [free(1, MemoryKind.DRAM)]]
    file = recorded(tmp_path / "run.ttmem", steps)

    assert stacks(file) == {"DRAM": 12 * 4096}


def test_a_time_is_that_of_the_counters_where_there_are_no_events(
    tmp_path: Path, stacks: Callable[..., dict[str, int]]
) -> None:
    books, path = Books(), tmp_path / "counted.ttmem"
    recorder = Recorder(books, FileSink(str(path)), described("test"))
    start = recorder._started
    books.watchful = True
    for second, held in enumerate((100, 400, 300, 0), 1):
        now = start + second * SECOND
        books.sample([region("77", slot(41, Amounts(dram=held)))], (), now)
        books.tick(now)
        recorder.tick(now)
        now += SECOND // 5  # no sample of the history
        books.sample([region("77", slot(41, Amounts(dram=held + 50 if held else 0)))], (), now)
        recorder.tick(now)
    recorder.close()

    assert stacks(path, "--at", "1.1s") == {"DRAM": 100}
    assert stacks(path, "--at", "3.1s") == {"DRAM": 300}
    assert stacks(path) == stacks(path, "--at", "peak:dram") == {"DRAM": 450}
    assert stacks(path, "--until", "2.1s") == {"DRAM": 400}
    assert stacks(path, "--at", "end") == {}


def test_perfetto_has_the_marks_of_the_range(tmp_path: Path) -> None:
    books, path, out = Books(), tmp_path / "run.ttmem", tmp_path / "trace"
    recorder = Recorder(books, FileSink(str(path)), described("test"))
    process = opened(books, 41)
    for number, text in enumerate(("before", "warm-up is over"), 1):
        data = l1(number, 64)._replace(time=NOW + number * SECOND).pack()
        books.apply(process, data, 0, len(data), NOW + number * SECOND)
        recorder.mark(text, NOW + number * SECOND)
    recorder.close()

    form = ("--to", "perfetto", "--from", f"@{NOW + 2 * SECOND}")
    assert main(["export", str(path), *form, "-o", str(out)]) == 0

    with TraceProcessor(out.read_bytes()) as processor:
        errors = processor.errors()
        marks = processor.query(
            "select slice.name, ts, dur from slice join track on slice.track_id = track.id"
            " where track.name = 'marks'"
        )
    assert errors == []
    assert [tuple(mark) for mark in marks] == [("warm-up is over", NOW + 2 * SECOND, 0)]


def test_perfetto_has_the_heap_of_that_time_and_of_the_end(tmp_path: Path) -> None:
    """Stacks that two kinds of memory share are not confused."""
    dram = alloc(4, MemoryKind.DRAM, 4096, 1 << 20, name=1, site=11)
    steps = [[l1(1, 64), dram], [l1(2, 128)], [free(1, MemoryKind.L1), free(4, MemoryKind.DRAM)]]
    file = recorded(tmp_path / "run.ttmem", steps)
    out = tmp_path / "trace"

    assert main(["export", str(file), "--to", "perfetto", "-o", str(out)]) == 0

    with TraceProcessor(out.read_bytes()) as processor:
        errors = processor.errors()
        heaps = processor.query(
            "select ts, heap_name, sum(count), sum(size) from heap_profile_allocation"
            " group by 1, 2 order by 1, 2"
        )
    peak, end = NOW + 2 * SECOND, NOW + 3 * SECOND
    assert errors == []
    assert [tuple(row) for row in heaps] == [
        (peak, "DRAM", 1, 12 * 4096),
        (peak, "L1", 2, 64 * (64 + 128)),
        (end, "DRAM", -1, -12 * 4096),
        (end, "L1", -1, -64 * 64),
    ]
