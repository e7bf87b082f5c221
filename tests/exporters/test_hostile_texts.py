"""Exports of recordings with hostile names: other tools read as many rows, frames and bytes as without them."""

from __future__ import annotations

import csv
import io
import json
import re
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.exporters.test_formats import flat, pprof
from tests.exporters.trace_processor import TraceProcessor
from tests.recording.rewriting import HOSTILE, Change, with_texts
from ttmem.commands import main
from ttmem.exporters.profiles import frames
from ttmem.text import clean

Both = Callable[..., tuple[Path, Path]]
TEXTS = ("op", "site", "phase")


@pytest.fixture(params=HOSTILE.values(), ids=[*HOSTILE])
def text(request: pytest.FixtureRequest) -> Change:
    change: Change = request.param
    return change


@pytest.fixture
def both(file: Path, text: Change, tmp_path: Path) -> Both:
    """The exports of the recording as it is, and with hostile texts."""
    hostile = tmp_path / "hostile.ttmem"
    hostile.write_bytes(with_texts(file, text))

    def run(form: str, *options: str) -> tuple[Path, Path]:
        out = tmp_path / f"plain.{form}", tmp_path / f"hostile.{form}"
        for recording, path in zip((file, hostile), out, strict=True):
            command = ["export", str(recording), "--to", form, "-o", str(path)]
            assert main([*command, *options]) == 0
        return out

    return run


def controls(written: str) -> set[str]:
    return {letter for letter in written if not letter.isprintable()} - {"\n"}


def as_read(text: Change, value: str | None) -> str | None:
    """What a reader of recordings makes of a text: halves of surrogates have no encoding, endless texts an end."""
    return text(value).replace("\udc80\ud800", "??")[:10_000] if value else value


def test_csv_keeps_rows_and_values_and_spells_out_control_characters(
    both: Both, text: Change
) -> None:
    plain, hostile = (path.read_bytes().decode() for path in both("csv"))

    expected = list(csv.DictReader(io.StringIO(plain, newline=""), strict=True))
    rows = list(csv.DictReader(io.StringIO(hostile, newline=""), strict=True))

    assert controls(hostile) == set()
    assert len(rows) == len(expected)
    for row, was in zip(rows, expected, strict=True):
        for key in TEXTS:
            changed = as_read(text, was[key]) or ""
            assert row[key][:9_000] == "\n".join(map(clean, changed.split("\n")))[:9_000]
        assert {**row, **dict.fromkeys(TEXTS)} == {**was, **dict.fromkeys(TEXTS)}


def test_duckdb_reads_every_row_of_csv_and_json_lines(both: Both, text: Change) -> None:
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    readers = {
        "csv": "read_csv('{}', parallel=false, max_line_size=64000000)",
        "jsonl": "read_json('{}', format='nd', maximum_object_size=64000000)",
    }

    for form, reader in readers.items():
        question = f"select count(*), count(distinct site) from {reader}"
        plain, hostile = (duckdb.sql(question.format(path)).fetchall() for path in both(form))
        assert hostile == plain


def test_json_lines_keep_every_value(both: Both, text: Change) -> None:
    plain, hostile = (path.read_text() for path in both("jsonl"))

    expected = [json.loads(line) for line in plain.split("\n")[:-1]]
    rows = [json.loads(line) for line in hostile.split("\n")[:-1]]

    assert controls(hostile) == set()
    for row, was in zip(rows, expected, strict=True):
        for key in TEXTS:
            assert (row[key] or "")[:9_000] == (as_read(text, was[key]) or "")[:9_000]


def stacks(written: str) -> Iterator[tuple[int, int]]:
    """Frames and bytes of each line, by the rules of flamegraph.pl; a second number would be a comparison."""
    for line in written.split("\n")[:-1]:
        found = re.fullmatch(r"(.*)\s+?(\d+(?:\.\d*)?)", line)
        assert found is not None
        assert re.fullmatch(r"(.*)\s+?(\d+(?:\.\d*)?)", found[1]) is None
        yield found[1].count(";"), int(found[2])


def test_collapsed_stacks_keep_their_lines_frames_and_bytes(both: Both, text: Change) -> None:
    plain, hostile = (path.read_bytes().decode() for path in both("collapsed"))

    assert controls(hostile) == set()
    assert sorted(stacks(hostile)) == sorted(stacks(plain))


def test_speedscope_keeps_its_frames_and_bytes(both: Both, text: Change) -> None:
    plain, hostile = (json.loads(path.read_text()) for path in both("speedscope"))

    assert hostile["profiles"] == plain["profiles"]
    assert len(hostile["shared"]["frames"]) == len(plain["shared"]["frames"])


def test_go_pprof_adds_up_the_same(both: Both, text: Change) -> None:
    options = ("-top", "-unit=B", "-sample_index=inuse_space")
    plain, hostile = (flat(pprof(*options, path)) for path in both("pprof", "--at", "end"))

    assert sum(hostile.values()) == sum(plain.values()) > 0


# Two, at four seconds each: texts have a length in protobuf, whatever is in them.
@pytest.mark.parametrize(
    "text", [HOSTILE["escapes"], HOSTILE["half a surrogate"]], ids=["escapes", "half a surrogate"]
)
def test_trace_processor_finds_as_many_slices_and_frames(both: Both, text: Change) -> None:
    counted = []
    for path in both("perfetto"):
        with TraceProcessor(path.read_bytes()) as processor:
            assert processor.errors() == []
            counted.append(
                [
                    processor.query(f"select count(*) from {table}")
                    for table in ("slice", "counter", "process", "stack_profile_frame")
                ]
            )

    assert counted[0] == counted[1]


def test_memory_viz_keeps_its_entries(both: Both, text: Change) -> None:
    plain, hostile = (json.loads(path.read_text()) for path in both("memory-viz"))

    for found, expected in zip(hostile["device_traces"], plain["device_traces"], strict=True):
        assert [(entry["action"], len(entry["frames"])) for entry in found] == [
            (entry["action"], len(entry["frames"])) for entry in expected
        ]
    assert len(hostile["segments"]) == len(plain["segments"])


def test_pyarrow_reads_every_value_of_parquet(both: Both, text: Change) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    plain, hostile = both("parquet")

    for table in ("events", "totals", "live"):
        expected, found = (
            parquet.read_table(path / f"{table}.parquet").to_pylist() for path in (plain, hostile)
        )
        assert len(found) == len(expected)
        for row, was in zip(found, expected, strict=True):
            for key in set(TEXTS) & set(row):
                assert (row[key] or "")[:9_000] == (as_read(text, was[key]) or "")[:9_000]


def test_sqlite_finds_as_many_rows_for_the_visualizer(both: Both, text: Change) -> None:
    counted = []
    for path in both("visualizer"):
        with sqlite3.connect(path / "db.sqlite") as database:
            assert database.execute("pragma integrity_check").fetchall() == [("ok",)]
            tables = database.execute("select name from sqlite_master where type='table'")
            counted.append(
                {
                    name: database.execute(f"select count(*) from {name}").fetchone()
                    for (name,) in tables.fetchall()
                }
            )
        database.close()

    assert counted[0] == counted[1]
    assert len(counted[0]) > 3


def test_a_call_site_has_the_frames_that_its_lines_are(text: Change) -> None:
    site = f"{text('model.py:4 forward')}\n{text('model.py:2 main')}"

    assert [frame.text for frame in frames(site)] == site.split("\n")
