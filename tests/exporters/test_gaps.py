"""Exports of a damaged recording: what follows the damage is right again from the next key frame on."""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.exporters.history import MS, NOW, alloc, free, opened
from tests.exporters.trace_processor import TraceProcessor
from tests.patience import wait_until
from ttmem.commands import main
from ttmem.events import Event, MemoryKind, Op
from ttmem.ledger import Books
from ttmem.recording import Recording
from ttmem.recording import recorder as recorder_module
from ttmem.recording.files import FileSink
from ttmem.recording.format import HEADER_SIZE, ChunkType, Header
from ttmem.recording.recorder import described

Export = Callable[..., Path]
LAST = 4  # seconds


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Each second a larger buffer replaces the one before; then comes a key frame. The third second is damaged."""
    path = tmp_path_factory.mktemp("recorded") / "run.ttmem"
    with pytest.MonkeyPatch.context() as changed:
        changed.setattr(recorder_module, "KEY_FRAME_RECORDS", 1000)
        _record(path)
    damage(path, range(NOW + 2000 * MS, NOW + 2501 * MS))
    return path


def _record(path: Path) -> None:
    books = Books()
    recorder = recorder_module.Recorder(books, FileSink(str(path)), described("test"))
    process, sizes = opened(books, 41), random.Random(1)

    def report(events: list[Event], now: int) -> None:
        data = b"".join(event._replace(time=now).pack() for event in events)
        books.apply(process, data, 0, len(data), now)
        books.tick(now)
        recorder.tick(now)

    for second in range(LAST + 1):
        now = NOW + second * 1000 * MS
        address = (1 << 20) + (second << 16)
        dram = alloc(second, MemoryKind.DRAM, 4096 * (second + 1), address, name=2, site=12)
        freed = [free(second - 1, MemoryKind.DRAM)] if second else []
        report([dram, *freed, Event(Op.PROGRAM_DISPATCH, id=7, name=2, site=12)], now)
        churn: list[Event] = []
        for _ in range(4000):
            size, address = sizes.randrange(1 << 20), sizes.randrange(1, 1 << 20)
            churn += [alloc(99, MemoryKind.L1, size, address), free(99, MemoryKind.L1)]
        report(churn, now + 500 * MS)
        # What is written decides when a key frame is due.
        wait_until(lambda: recorder.written().records == recorder.position)
    recorder.close()


def damage(path: Path, times: range) -> None:
    data, at = bytearray(path.read_bytes()), 0
    while at < len(data):
        header = Header.unpack(bytes(data[at : at + HEADER_SIZE]))
        if header.type == ChunkType.RECORDS and header.last in times:
            data[at + HEADER_SIZE + header.stored // 2] ^= 1
        at += HEADER_SIZE + header.stored
    path.write_bytes(data)


def dram(recording: Recording, when: str) -> int | None:
    return recording.at(when).devices[0].memory.dram.held


def test_totals_reach_the_end(
    export: Export, recording: Recording, capsys: pytest.CaptureFixture[str]
) -> None:
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")

    totals = export("parquet") / "totals.parquet"

    question = f"select epoch_ns(time), dram from '{totals}' order by position desc limit 1"
    assert duckdb.sql(question).fetchall() == [(recording.span[1], dram(recording, "end"))]
    said = capsys.readouterr().err
    assert "RECORDS chunk" in said
    assert "the state after them is that of the next key frame" in said


def test_counters_reach_the_end(export: Export, recording: Recording) -> None:
    with TraceProcessor(export("perfetto").read_bytes()) as processor:
        ((last,),) = processor.query(
            "select value from counter join track on counter.track_id = track.id"
            " where track.name = 'dram' order by counter.id desc limit 1"
        )

    assert last == dram(recording, "end")


def test_viewers_show_what_is_alive_at_the_end(export: Export, recording: Recording) -> None:
    document = json.loads(export("memory-viz", "--at", "end").read_text())
    with closing(sqlite3.connect(export("visualizer") / "db.sqlite")) as database:
        question = "select operation_id from operations order by operation_id desc limit 1"
        kinds = database.execute(
            f"select buffer_type from buffers where operation_id = ({question})"
        ).fetchall()

    held = sum(s["allocated_size"] for s in document["segments"] if s["segment_pool_id"] == [0, 0])
    assert held == dram(recording, "end") == 12 * 4096 * (LAST + 1)
    assert kinds == [(int(MemoryKind.DRAM),)]


def test_a_time_within_the_damage_says_that_the_state_is_older(recording: Recording) -> None:
    within = recording.at(f"@{NOW + 2200 * MS}").remarks
    later = recording.at(f"@{NOW + 4000 * MS}").remarks

    assert "recording_gap" in {remark.kind for remark in within}
    assert "recording_gap" not in {remark.kind for remark in later}


def test_info_tells_the_size_of_the_damaged_part(
    file: Path, recording: Recording, capsys: pytest.CaptureFixture[str]
) -> None:
    damages = recording.verify()

    assert main(["info", str(file)]) == 1
    data = file.read_bytes()
    sizes = [Header.unpack(data[d.offset : d.offset + HEADER_SIZE]).stored for d in damages]
    assert [damage.bytes for damage in damages] == [HEADER_SIZE + size for size in sizes]
    assert f"{damages[0].bytes:,} bytes" in capsys.readouterr().out
