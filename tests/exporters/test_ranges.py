"""Exports have every event of a recording once, whole and in parts."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from random import Random

import pytest

from ttmem.clock import now_ns
from ttmem.commands import main
from ttmem.events import DeviceDeclaration, Event, MemoryKind, Op
from ttmem.ledger import Books, ProcessRecord
from ttmem.procfs import ProcessFacts
from ttmem.recording.files import FileSink
from ttmem.recording.format import ChunkType
from ttmem.recording.recorder import Recorder, described

EVENTS = 40_000
SECOND = 10**9
FORMATS = ("parquet", "jsonl", "csv")


class _Files:
    """A sink that begins a file with each FILE chunk, as the ring of the flight recorder."""

    def __init__(self, folder: Path) -> None:
        self.paths: list[Path] = []
        self._folder = folder
        self._file: FileSink | None = None

    def append(self, chunk: bytes) -> None:
        if chunk[4] == ChunkType.FILE:
            self.close()
            self.paths.append(self._folder / f"{len(self.paths)}.ttmem")
            self._file = FileSink(str(self.paths[-1]))
        assert self._file is not None
        self._file.append(chunk)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def _record(folder: Path, chance: Random, *, files: int) -> list[Path]:
    """EVENTS events with the ids 1, 2, ... of processes that come and go, in batches of any length."""
    books, sink, begun = Books(), _Files(folder), now_ns()
    recorder = Recorder(books, sink, described())
    made, pid, begun_files = 0, 100, 1
    alive: list[ProcessRecord] = []
    while made < EVENTS:
        arrived = begun + made * 10**5
        if len(alive) < 3 or chance.random() < 0.05:
            pid += 1
            process = books.open_process(ProcessFacts(pid, pid, "u", "python model.py"))
            books.declare(process, DeviceDeclaration(0, unique_id="chip", board="n300"))
            alive.append(process)
        if len(alive) > 4:
            books.release(alive.pop(chance.randrange(4)), arrived)
        count = min(chance.choice((1, 7, 300, 9000)), EVENTS - made)
        # Some happened before the recording began, some have no time, some claim to be of the future.
        times = [
            chance.choice((0, arrived, arrived - chance.randrange(SECOND), arrived + SECOND))
            for _ in range(count)
        ]
        data = b"".join(
            Event(Op.ALLOC, MemoryKind.DRAM, 0, 0, time, made + number, 64).pack()
            for number, time in enumerate(times, 1)
        )
        books.apply(chance.choice(alive), data, 0, len(data), arrived)
        made += count
        if chance.random() < 0.3:
            recorder.tick(arrived)
        if begun_files < files and made > EVENTS // files * begun_files:
            begun_files += 1
            recorder.begin_file(arrived)
            recorder.tick(arrived)
    assert recorder.close().lost == 0
    return sink.paths


def _exported(path: Path, form: str, out: Path, *options: str) -> list[int]:
    """The ids of the events of an export."""
    assert main(["export", str(path), "--to", form, "-o", str(out), *options]) == 0
    if form == "parquet":
        parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")

        return [int(id_) for id_ in parquet.read_table(out / "events.parquet")["id"].to_pylist()]
    with out.open() as file:
        if form == "csv":
            return [int(row["id"]) for row in csv.DictReader(file)]
        return [json.loads(line)["id"] for line in file]


@pytest.fixture(scope="module", params=[1, 2])
def recorded(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Random]:
    chance = Random(request.param)
    (path,) = _record(tmp_path_factory.mktemp("recorded"), chance, files=1)
    return path, chance


@pytest.mark.parametrize("form", FORMATS)
def test_an_export_has_every_event_once_from_the_first_record_on(
    form: str, recorded: tuple[Path, Random], tmp_path: Path
) -> None:
    path, _ = recorded

    assert sorted(_exported(path, form, tmp_path / "out")) == [*range(1, EVENTS + 1)]


@pytest.mark.parametrize("form", FORMATS)
def test_adjoining_ranges_have_every_event_once(
    form: str, recorded: tuple[Path, Random], tmp_path: Path
) -> None:
    path, chance = recorded
    times = [f"{seconds:.3f}s" for seconds in sorted(chance.uniform(0, 4.2) for _ in range(2))]
    positions = [f"#{position}" for position in sorted(chance.randrange(EVENTS) for _ in range(2))]

    for number, (first, second) in enumerate((times, positions)):
        found = [
            *_exported(path, form, tmp_path / f"a{number}", "--until", first),
            *_exported(path, form, tmp_path / f"b{number}", "--from", first, "--until", second),
            *_exported(path, form, tmp_path / f"c{number}", "--from", second),
        ]
        assert sorted(found) == [*range(1, EVENTS + 1)], (first, second)


@pytest.mark.parametrize("form", FORMATS)
def test_the_files_of_a_ring_have_every_event_once(form: str, tmp_path: Path) -> None:
    paths = _record(tmp_path, Random(3), files=4)

    found = [id_ for path in paths for id_ in _exported(path, form, tmp_path / path.stem)]

    assert len(paths) == 4
    assert sorted(found) == [*range(1, EVENTS + 1)]


def test_a_part_has_the_events_that_the_export_of_its_range_has(
    recorded: tuple[Path, Random], tmp_path: Path
) -> None:
    path, chance = recorded
    first, last = (
        f"#{position}" for position in sorted(chance.randrange(EVENTS) for _ in range(2))
    )
    part = tmp_path / "part.ttmem"
    assert main(["cut", str(path), "--from", first, "--to", last, "-o", str(part)]) == 0

    expected = _exported(path, "jsonl", tmp_path / "whole", "--from", first, "--until", last)

    # A part begins with the whole batch in which its first event lies.
    found = _exported(part, "jsonl", tmp_path / "part", "--from", first)
    assert found == expected
