"""Every format, read by the tool that it is for; the figures are those of `ttmem ps FILE`."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.exporters.history import ASKED, CHIPS
from tests.exporters.trace_processor import TraceProcessor
from tests.own_process import ran
from ttmem import exporters
from ttmem.commands import main
from ttmem.commands.recording import export as export_command
from ttmem.events import EVENT_SIZE, Amounts
from ttmem.exporters.events import EventRow
from ttmem.recording import Recording
from ttmem.sizes import human
from ttmem.snapshots import Snapshot

Export = Callable[..., Path]


def held_by(snapshot: Snapshot, key: str) -> dict[str, int]:
    sums: dict[str, int] = defaultdict(int)
    for buffer in snapshot.buffers or ():
        sums[str(getattr(buffer, key))] += buffer.held
    return dict(sums)


def held_in_all(snapshot: Snapshot, key: str) -> dict[str, int]:
    """With circular buffers, which are in no list."""
    name = {"kind": "CB", "site": "circular buffers of cached programs"}[key]
    circular = Amounts.total(held for one in snapshot.processes for held in one.devices.values()).cb
    return held_by(snapshot, key) | ({name: circular} if circular else {})


# -- tables --------------------------------------------------------------------------------------------


def recorded_events(recording: Recording) -> int:
    return sum(len(batch.events) for batch in recording.batches()) // EVENT_SIZE


def test_csv_has_a_row_for_every_event(export: Export, recording: Recording) -> None:
    with export("csv").open(newline="") as file:
        rows = list(csv.DictReader(file))

    assert list(rows[0]) == list(EventRow._fields)
    assert len(rows) == recorded_events(recording)
    failed = [row for row in rows if row["event"] == "allocation_failed"]
    assert [(row["requested"], row["op"], row["device"]) for row in failed] == [
        (str(ASKED), "ttnn.add", CHIPS[0])
    ]


def test_json_lines_have_the_same_rows_as_csv(export: Export) -> None:
    with export("csv").open(newline="") as file:
        expected = list(csv.reader(file))[1:]

    lines = export("jsonl").read_text().splitlines()

    found = [["" if v is None else str(v) for v in json.loads(line).values()] for line in lines]
    assert found == expected


def test_duckdb_adds_up_what_ps_shows(export: Export, recording: Recording) -> None:
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    directory = export("parquet")

    question = f"""
        select device, dram, l1_used from '{directory}/totals.parquet'
        qualify row_number() over (partition by device order by time desc, position desc) = 1
    """
    found = {device: (dram, l1) for device, dram, l1 in duckdb.sql(question).fetchall()}

    end = recording.at("end")
    assert found == {d.unique_id: (d.memory.dram.held, d.l1_used) for d in end.devices}
    events = f"select count(*) from '{directory}/events.parquet'"
    assert duckdb.sql(events).fetchall() == [(recorded_events(recording),)]


def test_parquet_has_what_was_alive_when_the_allocation_failed(
    export: Export, recording: Recording
) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")

    table = parquet.read_table(export("parquet") / "live.parquet")

    rows = [row for row in table.to_pylist() if row["mark"].startswith("failure")]
    sums: dict[str, int] = defaultdict(int)
    for row in rows:
        sums[row["site"]] += row["reserved"]
    assert dict(sums) == held_by(recording.at("oom", ["buffers"]), "site")


# -- Perfetto ------------------------------------------------------------------------------------------


def test_trace_processor_finds_the_same_totals_ops_phases_and_heaps(
    export: Export, recording: Recording
) -> None:
    trace = export("perfetto").read_bytes()

    with TraceProcessor(trace) as processor:
        errors = processor.errors()
        last = processor.query(
            """
            select parent.name as device, track.name as kind, value from counter
            join track on counter.track_id = track.id
            join track parent on track.parent_id = parent.id
            where counter.id in (select max(id) from counter group by track_id)
            """
        )
        ops = processor.query("select distinct slice.name from slice order by 1")
        heaps = processor.query(
            "select heap_name, sum(size) from heap_profile_allocation group by 1 order by 1"
        )

    end = recording.at("end", ["buffers"])
    expected = {}
    for device in end.devices:
        values = (*device.memory.amounts._asdict().items(), ("l1_used", device.l1_used))
        for kind, value in values:
            expected[f"n300 {device.unique_id}", kind] = value
    assert errors == []
    assert {(device, kind): value for device, kind, value in last} == expected
    assert [name for (name,) in ops] == [
        "allocation failed: L1",
        "decode",
        "prefill",
        "ttnn.add",
        "ttnn.from_torch",
        "ttnn.matmul",
    ]
    assert dict(heaps) == held_in_all(end, "kind")


# -- profiles ------------------------------------------------------------------------------------------


def pprof(*arguments: str | Path) -> str:
    program = shutil.which("pprof")
    if program is None:
        pytest.skip("pprof is not installed")
    done = ran(
        [program, *map(str, arguments)], check=True, env={**os.environ, "HOME": "/nonexistent"}
    )
    return done.stdout


def flat(report: str) -> dict[str, int]:
    """'flat flat% sum% cum cum% name' lines of -top, in bytes."""
    rows = re.findall(r"^\s*(-?\d+)B?\s+\S+%\s+\S+%\s+\S+\s+\S+%\s+(.+)$", report, re.MULTILINE)
    return {name.strip(): int(size) for size, name in rows}


def test_go_pprof_shows_what_ps_by_site_shows(export: Export, recording: Recording) -> None:
    profile = export("pprof", "--at", "end")

    report = pprof("-top", "-unit=B", "-sample_index=inuse_space", profile)

    sites = held_in_all(recording.at("end", ["buffers"]), "site")
    assert {k: v for k, v in flat(report).items() if v} == {
        site.splitlines()[0]: held for site, held in sites.items()
    }


def test_go_pprof_shows_the_growth_between_two_instants(
    export: Export, recording: Recording, tmp_path: Path
) -> None:
    before = export("pprof", "--at", "start")
    before.rename(tmp_path / "before")
    after = export("pprof", "--at", "end")

    report = pprof(
        "-top", "-unit=B", "-sample_index=inuse_space", "-diff_base", tmp_path / "before", after
    )

    total = sum(held_in_all(recording.at("end", ["buffers"]), "site").values())
    assert sum(flat(report).values()) == total


def test_labels_select_one_kind_of_memory(export: Export, recording: Recording) -> None:
    profile = export("pprof", "--at", "end")

    report = pprof(
        "-top", "-unit=B", "-sample_index=inuse_space", "-tagfocus=memory=^DRAM$", profile
    )

    assert sum(flat(report).values()) == held_by(recording.at("end", ["buffers"]), "kind")["DRAM"]


def test_speedscope_files_follow_its_schema(export: Export, recording: Recording) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    root = Path(__file__).parents[2] / ".tools" / "node_modules" / "speedscope"
    schemas = list(root.glob("dist/release/file-format-schema.json"))
    if not schemas:
        pytest.skip("speedscope is not installed")

    document = json.loads(export("speedscope", "--at", "end").read_text())

    jsonschema.validate(document, json.loads(schemas[0].read_text()))
    total = sum(sum(profile["weights"]) for profile in document["profiles"])
    assert total == sum(held_in_all(recording.at("end", ["buffers"]), "kind").values())


@pytest.mark.parametrize("at", ["end", "peak:l1_used", "peak:dram", "start"])
def test_stacks_hold_what_ps_by_site_shows(
    export: Export, file: Path, at: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ps", str(file), "--at", at, "--by", "site", "--json"]) == 0
    total = json.loads(capsys.readouterr().out)["total"]

    lines = export("collapsed", "--at", at).read_text().splitlines()

    sums: dict[str, int] = defaultdict(int)
    for line in lines:
        path, _, held = line.rpartition(" ")
        sums[path.split(";")[1].lower()] += int(held)
    kinds = ("dram", "l1", "l1_small", "trace", "cb")
    assert {kind: sums[kind] for kind in kinds} == {kind: total[kind] for kind in kinds}


def test_an_export_to_a_file_says_its_name_and_size(
    export: Export, capsys: pytest.CaptureFixture[str]
) -> None:
    path = export("csv")
    directory = export("parquet")

    said = capsys.readouterr().out.splitlines()
    assert said == [
        f"{path}: {human(path.stat().st_size)}",
        f"{directory}: {human(sum(one.stat().st_size for one in directory.iterdir()))} in 5 files",
    ]


def test_memory_viz_says_how_much_it_leaves_out(
    export: Export, recording: Recording, capsys: pytest.CaptureFixture[str]
) -> None:
    export("memory-viz", "--at", "end")

    circular = held_in_all(recording.at("end", ["buffers"]), "kind")["CB"]
    assert f"{human(circular)} of circular buffers" in capsys.readouterr().err


def test_collapsed_stacks_add_up(export: Export, recording: Recording) -> None:
    lines = export("collapsed", "--at", "end").read_text().splitlines()

    parts = [line.rpartition(" ") for line in lines]
    assert sum(int(size) for _, _, size in parts) == sum(
        held_in_all(recording.at("end", ["buffers"]), "kind").values()
    )
    assert all(path.startswith("device 100") for path, _, _ in parts)
    assert any(
        "model.py:9 main;/src/model.py:42 forward;ttnn.matmul" in path for path, _, _ in parts
    )


# -- viewers -------------------------------------------------------------------------------------------


def test_memory_viz_keeps_its_viewers_rules(export: Export, recording: Recording) -> None:
    document = json.loads(export("memory-viz", "--at", "end").read_text())

    segments = document["segments"]
    for segment in segments:  # blocks tile their segment, in order
        at = segment["address"]
        for block in segment["blocks"]:
            assert block["address"] == at
            at += block["size"]
        assert at == segment["address"] + segment["total_size"]
    spans = sorted((s["address"], s["address"] + s["total_size"], s["device"]) for s in segments)
    assert all(span[1] < 2**53 for span in spans)
    for entry in (entry for trace in document["device_traces"] for entry in trace):
        if entry["action"] != "oom":
            assert any(low <= entry["addr"] < high for low, high, _ in spans)
    allocated = sum(segment["allocated_size"] for segment in segments)
    alive = {
        (b.device, b.kind, b.address): b.held
        for b in recording.at("end", ["buffers"]).buffers or ()
    }
    assert allocated == sum(alive.values())  # two processes share addresses: each is drawn once
    actions = {entry["action"] for trace in document["device_traces"] for entry in trace}
    assert actions == {"alloc", "free_requested", "free_completed", "oom"}


# -- what cannot be exported ---------------------------------------------------------------------------


def test_an_existing_file_is_kept(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "there"
    out.write_text("mine")

    code = main(["export", str(file), "--to", "csv", "-o", str(out)])

    assert (code, out.read_text()) == (2, "mine")
    assert "exists" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.ttmem", "there"]


def test_a_directory_cannot_go_to_a_pipe(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(file), "--to", "parquet"]) == 2
    assert "-o" in capsys.readouterr().err


def test_a_range_that_ends_before_it_begins_is_refused(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["export", str(file), "--to", "csv", "--from", "end", "--until", "start"])

    assert code == 2
    assert "before" in capsys.readouterr().err


def test_a_range_has_only_its_events(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(file), "--to", "csv", "--from", "oom"]) == 0

    assert "allocation_failed" not in capsys.readouterr().out


def test_the_verb_offers_every_format() -> None:
    assert tuple(exporters.FORMATS) == export_command.FORMATS


def test_a_time_to_show_is_refused_where_the_format_has_no_use_for_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        main(["export", "run.ttmem", "--to", "csv", "--at", "oom", "-o", str(tmp_path / "a")]) == 2
    )

    assert "--from and --until" in capsys.readouterr().err
