"""Exports of a program on the real runtime: every call of an op is one operation."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest

from tests.exporters.trace_processor import TraceProcessor
from tests.patience import wait_until
from tests.ttnn.bench.environment import Environment
from tests.ttnn.probed import Machines
from tests.ttnn.test_recording import begun, running
from tests.ttnn.test_run import UserProgram
from ttmem.commands import main
from ttmem.exporters.events import event_rows
from ttmem.recording import Recording
from ttmem.recording.chunks import Chunks, FileSource
from ttmem.recording.format import ChunkType

CALLS = {"ttnn.empty": 5, "ttnn.add": 10, "ttnn.matmul": 5, "ttnn.relu": 5}
PROGRAM = """
import ttnn

device = ttnn.open_mesh_device(ttnn.MeshShape(1, {chips}))
L1 = ttnn.L1_MEMORY_CONFIG
made = [ttnn.empty((64, 64), ttnn.bfloat16, ttnn.TILE_LAYOUT, device, L1) for _ in range(5)]
total = made[0]
for _ in range(10):
    total = ttnn.add(total, made[1])
for _ in range(5):
    total = ttnn.relu(ttnn.matmul(total, made[2]))
del made, total
ttnn.close_mesh_device(device)
"""


@pytest.fixture(params=[("p150", 1), ("p150x4", 4)], ids=["p150", "p150x4"])
def file(request: pytest.FixtureRequest, machine: Machines, environment: Environment) -> Path:
    board, chips = request.param
    there = machine(board)
    options = ("-o", "run.ttmem")
    program = UserProgram(there, environment.python, PROGRAM.format(chips=chips), options=options)
    assert program.done.returncode == 0, program.done.stderr
    return there.folder / "run.ttmem"


def test_the_visualizer_has_every_call_once_with_what_it_left_alive(
    file: Path, tmp_path: Path
) -> None:
    out = tmp_path / "report"
    assert main(["export", str(file), "--to", "visualizer", "-o", str(out)]) == 0

    with closing(sqlite3.connect(out / "db.sqlite")) as database:
        alive = database.execute(
            "select o.name, (select count(*) from buffers b where b.operation_id = o.operation_id"
            " and b.device_id = 0) from operations o order by o.operation_id"
        ).fetchall()

    assert Counter(name for name, _ in alive) == CALLS
    assert [count for _, count in alive[:6]] == [1, 2, 3, 4, 5, 6]
    assert alive[-1] == ("ttnn.relu", 0)  # the program has freed everything


def test_perfetto_has_every_call_as_a_slice_and_none_during_another(
    file: Path, tmp_path: Path
) -> None:
    out = tmp_path / "trace"
    assert main(["export", str(file), "--to", "perfetto", "-o", str(out)]) == 0

    with TraceProcessor(out.read_bytes()) as processor:
        errors = processor.errors()
        slices = processor.query(
            "select slice.name, ts, dur from slice join track on slice.track_id = track.id"
            " where track.name = 'ops' order by ts"
        )

    assert errors == []
    assert Counter(name for name, _, _ in slices) == CALLS
    assert all(first[1] + first[2] <= second[1] for first, second in pairwise(slices))
    with Recording(str(file)) as recording:
        rows = [row for batch in recording.batches() for row in event_rows(batch)]
    dispatched = [row.time_ns for row in rows if row.event == "program_dispatch"]
    assert slices[-1][1] + slices[-1][2] == dispatched[-1]


IN_A_FOLDER = """
import ttnn

device = ttnn.open_mesh_device(ttnn.MeshShape(1, 1))
source = "import ttnn\\nkept = ttnn.zeros((64, 64), ttnn.bfloat16, ttnn.TILE_LAYOUT, device)\\n"
exec(compile(source, "/home/ann/top secret (2)/my part.py", "exec"), {"device": device})
ttnn.close_mesh_device(device)
"""


def test_a_confidential_recording_has_no_directory_with_spaces(
    machine: Machines, environment: Environment
) -> None:
    there = machine("p150")
    payloads = {}
    for name, options in (("open", ()), ("closed", ("--confidential",))):
        file = f"{name}.ttmem"
        program = UserProgram(
            there, environment.python, IN_A_FOLDER, options=("-o", file, *options)
        )
        assert program.done.returncode == 0, program.done.stderr
        chunks = Chunks(FileSource(str(there.folder / file)))
        payloads[name] = b"".join(
            chunks.payload(kind, number)
            for kind in ChunkType
            for number in range(chunks.count(kind))
        )
        chunks.close()

    assert b"/home/ann/top secret (2)/my part.py:2" in payloads["open"]
    assert b"my part.py:2" in payloads["closed"]
    assert b"secret" not in payloads["closed"]
    assert str(there.folder).encode() not in payloads["closed"]


def test_a_recording_without_the_probe_exports_what_the_counters_said(
    machine: Machines, own_folder: Path, tmp_path: Path
) -> None:
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    there, file = machine("p150"), tmp_path / "run.ttmem"
    stock = there.session()
    stock.run("None")
    for region in there.regions:
        region.rename(own_folder / region.name)
    with running("record", file, "--shm", own_folder):
        wait_until(lambda: begun(file))
        stock.run("kept = ttnn.zeros((64, 640), ttnn.bfloat16, ttnn.TILE_LAYOUT, device)\nNone")
        wait_until(lambda: _dram(file) >= 64 * 640 * 2)

    for form in ("parquet", "perfetto"):
        out = str(tmp_path / form)
        assert main(["export", str(file), "--to", form, "-o", out]) == 0
    held = duckdb.sql(
        f"select dram from '{tmp_path}/parquet/samples.parquet' order by time desc limit 1"
    ).fetchall()
    with TraceProcessor((tmp_path / "perfetto").read_bytes()) as processor:
        counted = processor.query(
            "select value from counter join track on counter.track_id = track.id"
            " where track.name = 'dram' order by ts desc limit 1"
        )
        errors = processor.errors()

    with Recording(str(file)) as recording:
        assert recording.at("end").devices[0].memory.dram.held == _dram(file)
    assert held == [(_dram(file),)]
    assert counted == [(_dram(file),)]
    assert errors == []


def _dram(file: Path) -> int:
    """In the last sample, of which there is one a second."""
    with Recording(str(file)) as recording:
        return max(
            ((time, amounts[0]) for _, time, amounts in recording.samples()), default=(0, 0)
        )[1]
