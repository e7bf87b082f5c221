"""Exports of a run in which a process is killed: nobody reports that its memory is free."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.exporters.history import MS, NOW, alloc, free, opened
from ttmem.events import Event, MemoryKind, Op
from ttmem.ledger import Books
from ttmem.recording import Recording
from ttmem.recording.files import FileSink
from ttmem.recording.recorder import Recorder, described

Export = Callable[..., Path]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Process 41 has 31 buffers when it is killed; then process 42 runs an op, and frees everything."""
    path = tmp_path / "run.ttmem"
    books = Books()
    recorder = Recorder(books, FileSink(str(path)), described("test"))
    now = NOW

    def report(pid: int, events: list[Event]) -> None:
        nonlocal now
        now += MS
        timed = b"".join(event._replace(time=now).pack() for event in events)
        books.apply(processes[pid], timed, 0, len(timed), now)
        recorder.tick(now)

    def weights(count: int) -> list[Event]:
        return [
            alloc(n, MemoryKind.DRAM, 4096, (1 << 20) + 4096 * n, name=2, site=12)
            for n in range(count)
        ]

    processes = {pid: opened(books, pid) for pid in (41, 42)}
    report(41, weights(31))
    books.release(processes[41], now)
    report(42, weights(2))
    report(42, [Event(Op.PROGRAM_DISPATCH, id=7, name=1, site=11)])
    report(42, [free(n, MemoryKind.DRAM, name=2, site=12) for n in range(2)])
    recorder.close()
    return path


def test_memory_viz_shows_no_buffer_of_a_killed_process(
    export: Export, recording: Recording
) -> None:
    document = json.loads(export("memory-viz", "--at", "end").read_text())

    held = recording.at("end").devices[0].memory.dram.held
    assert sum(segment["allocated_size"] for segment in document["segments"]) == held == 0


def test_the_visualizer_shows_no_buffer_of_a_killed_process(export: Export) -> None:
    with closing(sqlite3.connect(export("visualizer") / "db.sqlite")) as database:
        query = "select name, (select count(*) from buffers b where b.operation_id = o.operation_id) from operations o"
        alive = database.execute(query).fetchall()

    assert alive[-1][1] == 0
    assert max(count for name, count in alive if name != "ttnn.from_torch") <= 2
