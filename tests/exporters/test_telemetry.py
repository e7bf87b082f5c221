"""Exports have the sensors of a recording, value by value."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.exporters.trace_processor import TraceProcessor
from tests.sources.region_writer import N300_LOCAL, Written, add_card, add_n300
from ttmem.commands import main
from ttmem.events import Telemetry
from ttmem.events.samples import VALUES
from ttmem.feeds import LocalFeed
from ttmem.feeds.recorded_telemetry import sample_of
from ttmem.feeds.recording_feed import RecordingFeed
from ttmem.feeds.telemetry import telemetry_feed
from ttmem.recording.files import FileSink
from ttmem.recording.recorder import described
from ttmem.snapshots import Snapshot
from ttmem.sources.telemetry.source import TelemetrySource

SECOND_NS = 1_000_000_000
SAMPLES = 5
COLUMNS = ("time", "device", "card", "pci", "board", *VALUES)
Row = tuple[Any, ...]


@pytest.fixture
def times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Of the samples in run.ttmem: each a degree warmer, the third without power; then a clock is no number."""
    sysfs = tmp_path / "sys"
    sysfs.mkdir()
    monkeypatch.setenv("TTMEM_SYSFS", str(sysfs))
    card, unused = add_n300(sysfs), add_card(sysfs, 7, 0x41, tt_card_type="p150a")
    Written(number=N300_LOCAL, logical_id=0).write(tmp_path)
    with closing(LocalFeed(str(tmp_path))) as feed:
        recorder = feed.record(FileSink(str(tmp_path / "run.ttmem")), described())
        start = feed.poll()
        times = [start + number * SECOND_NS for number in range(SAMPLES)]
        for number, now in enumerate(times):
            card.set(temp1_input=str(-1500 + number * 1000), tt_heartbeat=str((1 << 31) + number))
            if number == 2:
                card.without("power1_input")
            if number == 3:
                card.set(power1_input="34125000")
                unused.set(tt_aiclk="fast")
            recorder.telemetry(sample_of(TelemetrySource().read()), now)
        recorder.close()
    return times


def _at(file: Path, time: int) -> Snapshot:
    with closing(telemetry_feed(RecordingFeed(str(file), f"@{time}"))) as feed:
        return feed.read()


def _expected(file: Path, times: list[int]) -> list[Row]:
    """What `ttmem ps FILE --telemetry` shows at these times."""

    def row(time: int, device: str | None, of: Any, card: int | None, told: Telemetry) -> Row:
        return (time, device, card, of.pci, of.board, *(getattr(told, name) for name in VALUES))

    rows = []
    for time in times:
        seen = _at(file, time)
        (device,), (card,) = seen.devices, seen.cards
        assert device.telemetry is not None
        rows.append(row(time, device.unique_id, device, 0, device.telemetry))
        rows.append(row(time, None, card, 7, card.telemetry))
    return rows


def _export(folder: Path, form: str, *options: str) -> Path:
    out = folder / f"out.{form}"
    assert main(["export", str(folder / "run.ttmem"), "--to", form, "-o", str(out), *options]) == 0
    return out


def _parquet(path: Path) -> list[Row]:
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    table = parquet.read_table(path / "telemetry.parquet")
    assert tuple(table.column_names) == COLUMNS
    columns = [table.column(name) for name in COLUMNS]
    columns[0] = columns[0].cast(pyarrow.int64())
    return list(zip(*(column.to_pylist() for column in columns), strict=True))


def test_pyarrow_and_duckdb_read_what_ps_shows(tmp_path: Path, times: list[int]) -> None:
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    expected = _expected(tmp_path / "run.ttmem", times)

    path = _export(tmp_path, "parquet")

    question = f"select epoch_ns(time), * exclude (time) from '{path}/telemetry.parquet'"
    assert [row[5] for row in expected if row[1]] == [-1.5, -0.5, 0.5, 1.5, 2.5]
    assert _parquet(path) == expected
    assert duckdb.sql(question).fetchall() == expected


def test_a_range_has_the_samples_of_its_time_although_nothing_else_happened(
    tmp_path: Path, times: list[int]
) -> None:
    first, last = (f"@{times[0] + int(seconds * SECOND_NS)}" for seconds in (0.5, 3))

    path = _export(tmp_path, "parquet", "--from", first, "--until", last)

    assert _parquet(path) == _expected(tmp_path / "run.ttmem", times[1:4])


def test_trace_processor_finds_a_counter_for_each_sensor(tmp_path: Path, times: list[int]) -> None:
    trace = _export(tmp_path, "perfetto").read_bytes()

    with TraceProcessor(trace) as processor:
        errors = processor.errors()
        found = processor.query(
            """
            select parent.name as chip, track.name as sensor, unit, ts, value from counter
            join counter_track on counter.track_id = counter_track.id
            join track on counter.track_id = track.id
            join track parent on track.parent_id = parent.id
            where unit != 'bytes'
            """
        )

    expected = {}
    for time, device, _, pci, _, *values in _expected(tmp_path / "run.ttmem", times):
        chip = f"n300 {device}" if device else f"p150 {pci}"
        for name, value in zip(VALUES, values, strict=True):
            if value is not None and name != "firmware":
                expected[chip, name, time] = value
    units = {name: unit for _, name, unit, _, _ in found}
    assert errors == []
    assert {(chip, name, ts): value for chip, name, _, ts, value in found} == expected
    assert units["temperature_c"] == "°C"
    assert units["aiclk_mhz"] == "MHz"


def test_a_recording_without_cards_has_an_empty_table(tmp_path: Path) -> None:
    data = Path(__file__).parents[1] / "data" / "recordings" / "version-1.ttmem"
    (tmp_path / "run.ttmem").write_bytes(data.read_bytes())

    assert _parquet(_export(tmp_path, "parquet")) == []
