"""Exports of a run that only the runtime's counters know, and of one that enters its phases often."""

from __future__ import annotations

import stat
from collections import Counter
from pathlib import Path

import pytest

from tests.exporters.history import MS, alloc, opened
from tests.exporters.trace_processor import TraceProcessor
from ttmem.clock import now_ns
from ttmem.commands import main
from ttmem.events import Event, MemoryKind, Notice
from ttmem.ledger import Books
from ttmem.recording.files import FileSink
from ttmem.recording.format import ChunkType
from ttmem.recording.recorder import Recorder, described

SECOND = 1000 * MS
HELD = [10 << 20, 40 << 20, 30 << 20]


@pytest.fixture
def counted(tmp_path: Path) -> Path:
    path = tmp_path / "counted.ttmem"
    recorder = Recorder(Books(), FileSink(str(path)), described("test"))
    start = now_ns()
    samples = [[start + n * SECOND, held, 0, 0, 0, 0, 5] for n, held in enumerate(HELD, 1)]
    for until in (2, 3):  # a sample may occur twice
        time = start + until * SECOND
        recorder._writer.document(ChunkType.HISTORY, {"chip": samples[:until]}, time)
    recorder.close()
    return path


def exported(file: Path, form: str) -> Path:
    out = file.with_suffix(f".{form}")
    assert main(["export", str(file), "--to", form, "-o", str(out)]) == 0
    return out


def test_parquet_has_the_samples_of_the_counters(counted: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")

    rows = parquet.read_table(
        exported(counted, "parquet") / "samples.parquet", columns=["device", "dram", "l1_used"]
    ).to_pylist()

    found = [(row["device"], row["dram"], row["l1_used"]) for row in rows]
    assert found == [("chip", held, 5) for held in HELD]


def test_perfetto_has_the_samples_of_the_counters(counted: Path) -> None:
    with TraceProcessor(exported(counted, "perfetto").read_bytes()) as processor:
        errors = processor.errors()
        values = processor.query(
            "select value from counter join track on counter.track_id = track.id"
            " where track.name = 'dram' order by ts"
        )

    assert errors == []
    assert [value for (value,) in values] == HELD


def test_live_buffers_are_listed_where_a_phase_begins_first(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    path, books, now = tmp_path / "phases.ttmem", Books(), now_ns()
    recorder = Recorder(books, FileSink(str(path)), described("test"))
    process = opened(books, 41)
    weights = [alloc(n, MemoryKind.DRAM, 4096, (1 << 20) + 4096 * n) for n in range(30)]
    phases = [Event(Notice.PHASE_ENTERED, name=21 + n % 2) for n in range(200)]
    for n, event in enumerate((*weights, *phases)):
        event = event._replace(time=now + n * MS)
        books.apply(process, event.pack(), 0, 64, event.time)
        recorder.tick(event.time)
    recorder.close()

    rows = parquet.read_table(
        exported(path, "parquet") / "live.parquet", columns=["mark"]
    ).to_pylist()

    marks = Counter(row["mark"] for row in rows if row["mark"].startswith("phase"))
    assert marks == {"phase: prefill": 30, "phase: decode": 30}


@pytest.mark.parametrize("form", ["parquet", "visualizer"])
def test_exported_files_are_private_like_the_recording(counted: Path, form: str) -> None:
    files = list(exported(counted, form).iterdir())

    assert files
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
