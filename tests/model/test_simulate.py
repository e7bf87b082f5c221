"""`ttmem simulate` as a process, with a real server."""

from __future__ import annotations

import re
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.other_user import as_plain_user, give_away, needs_root
from tests.own_process import finish, start
from tests.patience import PATIENCE_S, wait_until
from tests.server.harness import RunningServer
from ttmem.events import EVENT_SIZE
from ttmem.model.workloads import WORKLOADS
from ttmem.recording import Recording


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    running = RunningServer(tmp_path).wait_ready()
    yield running
    running.kill()


@pytest.mark.parametrize("name", WORKLOADS)
def test_every_workload_reports_to_a_real_server(server: RunningServer, name: str) -> None:
    options = ("--steps", 12, "--rate", 0, "--size", "small", "--socket", server.path)
    code, out, error = finish("simulate", name, *options)
    sent = re.search(r"12 steps in .* s, ([\d,]+) events reported .* 0 dropped, 0 resyncs", out)
    picture = server.sees(lambda snapshot: bool(snapshot.devices) and not snapshot.processes)

    assert (code, error) == (0, "")
    assert sent is not None
    assert int(sent[1].replace(",", "")) > 20
    assert any(d.memory.dram.peak or d.l1_peak for d in picture.devices)
    assert [d for d in picture.devices if d.memory.dram.held or d.l1_used or d.anomalies] == []


def test_a_recorded_run_has_every_event_that_was_reported(tmp_path: Path) -> None:
    file = str(tmp_path / "run.ttmem")
    options = ("--processes", 2, "--steps", 12, "--rate", 0, "--size", "small", "-o", file)

    code, out, error = finish("simulate", "serving", *options)

    reported = re.findall(r"([\d,]+) events reported", out)
    with Recording(file) as recording:
        recorded = sum(len(batch.events) // EVENT_SIZE for batch in recording.batches())
        peak, end = recording.at("peak:dram"), recording.at("end")
        kinds = Counter(marker.kind for marker in recording.markers)
        assert recording.info().closed
    assert (code, error) == (0, "")
    assert recorded == sum(int(number.replace(",", "")) for number in reported) > 100
    assert peak.devices[0].memory.dram.held == end.devices[0].memory.dram.peak
    assert end.devices[0].memory.dram.held == 0
    assert kinds == {"start": 2, "end": 2}


def test_an_existing_file_is_replaced_only_on_request(tmp_path: Path) -> None:
    file = tmp_path / "run.ttmem"
    file.write_text("precious")
    options = ("--steps", 1, "--rate", 0, "--size", "small", "-o", file)

    refused, _, error = finish("simulate", "leak", *options)

    assert (refused, error) == (2, f"ttmem: {file} exists; --overwrite replaces it\n")
    assert file.read_text() == "precious"
    assert finish("simulate", "leak", *options, "--overwrite")[0] == 0


def test_a_transformer_is_seen_on_four_devices_with_its_programs(server: RunningServer) -> None:
    process = start(
        "simulate",
        "transformer",
        "--steps",
        0,
        "--rate",
        100,
        "--size",
        "small",
        "--socket",
        server.path,
    )
    picture = server.sees(
        lambda snapshot: len(snapshot.devices) == 4 and snapshot.devices[0].memory.trace.held > 0
    )
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=PATIENCE_S)

    assert {d.kernels.cache_entries for d in picture.devices} == {50}
    assert {d.kernels.footprint.dispatch for d in picture.devices} == {2 * 46 * 1024}
    assert all(d.memory.cb.cached and d.l1_used < (d.l1_capacity or 0) for d in picture.devices)
    assert (process.returncode, "events reported" in out) == (130, True)


def test_two_processes_share_a_device_and_end_together(server: RunningServer) -> None:
    process = start(
        "simulate",
        "serving",
        "--processes",
        2,
        "--steps",
        0,
        "--size",
        "small",
        "--socket",
        server.path,
    )
    picture = server.sees(
        lambda snapshot: len(snapshot.processes) == 2 and all(p.devices for p in snapshot.processes)
    )
    process.terminate()
    out, _ = process.communicate(timeout=PATIENCE_S)

    assert [d.logical_id for d in picture.devices] == [0]
    assert picture.devices[0].anomalies == ()
    assert (process.returncode, out.count("events reported")) == (143, 2)
    server.sees(
        lambda snapshot: not snapshot.processes and snapshot.devices[0].memory.dram.held == 0
    )


def test_children_end_when_their_parent_is_killed(server: RunningServer) -> None:
    process = start(
        "simulate", "leak", "--processes", 2, "--steps", 0, "--rate", 50, "--socket", server.path
    )
    picture = server.sees(lambda snapshot: len(snapshot.processes) == 2)
    process.kill()
    process.communicate(timeout=PATIENCE_S)

    assert wait_until(lambda: not any(Path(f"/proc/{p.pid}").exists() for p in picture.processes))


def test_a_workload_that_runs_out_of_memory_ends_with_the_runtimes_message(
    server: RunningServer,
) -> None:
    options = ("--board", "n150", "--size", "large", "--rate", 0, "--steps", 0)
    code, out, error = finish("simulate", "leak", *options, "--socket", server.path)

    assert code == 1
    assert re.match(r"leak: \d+ steps in .* events reported", out)
    assert error.startswith("ttmem: Out of Memory: Not enough space to allocate 33554432 B DRAM")


def test_without_a_server_it_runs_and_says_so(tmp_path: Path) -> None:
    code, out, _ = finish("simulate", "cnn", "--steps", 3, "--rate", 0, "--socket", tmp_path / "no")

    assert (code, "3 steps" in out, "nothing was seen" in out) == (0, True, True)


def test_the_list_has_a_sentence_for_each() -> None:
    code, out, _ = finish("simulate", "--list")

    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == list(WORKLOADS)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "name a workload"),
        (("nope",), "unknown workload 'nope'; use one of: transformer"),
        (("leak", "--board", "p9"), "unknown board 'p9'; use one of"),
        (("leak", "--mesh", "4"), "'4' is not a mesh"),
        (("leak", "--mesh", "0x4"), "a mesh has rows and columns"),
        (("leak", "--mesh", "99x99"), "only 1024"),
        (("leak", "--mesh", "99x99", "--processes", "2"), "only 1024"),
        (("leak", "--steps", "-1"), "--steps must be 0 or more"),
        (("leak", "--rate", "nan"), "--rate must be 0 or more"),
        (("leak", "--processes", "0"), "--processes must be 1 to"),
    ],
)
def test_a_wrong_argument_is_one_sentence(arguments: tuple[str, ...], says: str) -> None:
    code, out, error = finish("simulate", *arguments)

    assert (code, out, error.count("\n"), says in error) == (2, "", 1, True)


@needs_root
def test_a_server_that_refuses_us_is_neither_called_absent_nor_a_success(
    server: RunningServer,
) -> None:
    give_away(Path(server.path))

    done = as_plain_user("simulate", "leak", "--steps", "2", "--rate", "0", "--socket", server.path)

    assert done.returncode == 1
    assert f"the server at {server.path} is closed to you: nothing was seen" in done.stdout
    assert "no server" not in done.stdout + done.stderr
