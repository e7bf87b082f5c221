"""What a recording shows of processes that had ended: what they never freed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.analysis.runs import Run
from tests.probe.watched import Watched
from tests.web.decoded import ask
from ttmem.commands import main
from ttmem.events import Event, Flag, MemoryKind, Op
from ttmem.feeds.ended import never_freed, never_freed_in, of_ended
from ttmem.recording import Recording

MIB = 1 << 20


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """1 MiB goes with its device and 2 MiB with the process; 4 MiB are freed."""
    path = tmp_path / "run.ttmem"
    with Run(path) as run:
        with run.in_phase("load"):
            first = run.alloc(1 * MIB, "model.py:3 load")
        run.alloc(2 * MIB, "model.py:5 keep", kind=MemoryKind.L1, device=1)
        freed = run.alloc(4 * MIB, "model.py:7 scratch")
        run.free(freed)
        run.event(Event(Op.FREE, flags=Flag.WITH_DEVICE, id=first))
        run.mark("before the end")
        run.end_process()
    return path


def test_what_went_with_its_device_or_its_process_was_never_freed(file: Path) -> None:
    with Recording(str(file)) as recording:
        ended = never_freed_in(recording)

    assert ended is not None
    held = {(one.site, one.kind, one.device): one.held for one in ended.snapshot.buffers or ()}
    assert held == {
        ("model.py:3 load", "DRAM", "chip0"): 1 * MIB,
        ("model.py:5 keep", "L1", "chip1"): 2 * MIB,
    }
    (process,) = ended.snapshot.processes
    assert (process.pid, process.alive) == (41, False)
    assert {name: amounts.all for name, amounts in process.devices.items()} == {
        "chip0": 1 * MIB,
        "chip1": 2 * MIB,
    }


def test_a_process_that_has_not_ended_yet_holds_its_memory(file: Path) -> None:
    with Recording(str(file)) as recording:
        (mark,) = (one for one in recording.markers if one.kind == "mark")
        before = never_freed_in(recording, f"#{mark.position}")

    assert before is None


def test_a_dump_of_a_recording_lists_it(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dump", str(file)]) == 0
    said = capsys.readouterr().out
    assert main(["dump", str(file), "--json", "--top", "0"]) == 0
    document = json.loads(capsys.readouterr().out)

    assert "NEVER FREED" in said
    assert "model.py:3 load" in said
    assert "model.py:7" not in said
    held = sum(group["held"] for one in document["never_freed"] for group in one["memory"])
    assert held == 3 * MIB


def test_the_strict_check_of_a_recording_fails_for_it(file: Path) -> None:
    assert main(["dump", str(file), "--exit-code", "--strict"]) == 1


def test_a_program_that_freed_everything_passes_the_strict_check(tmp_path: Path) -> None:
    path = tmp_path / "clean.ttmem"
    with Run(path) as run:
        run.free(run.alloc(MIB))
        run.end_process()

    assert main(["dump", str(path), "--exit-code", "--strict"]) == 0


def test_the_region_of_a_process_and_its_recording_say_the_same(
    watch: Callable[..., Watched], tmp_path: Path
) -> None:
    watch(
        "mesh = lib.mesh_open(2); buffer(mesh, 1, 0, 4000); freed = buffer(mesh, 2, 0, 4000)\n"
        "lib.buffer_free(freed); buffer(mesh, 3, 1, 4000); lib.mesh_close(mesh)"
    ).end()
    region = never_freed(str(tmp_path), ["buffers"])
    assert region is not None
    (pid,) = region.ended_ns

    recording = of_ended(pid, str(tmp_path))

    assert recording is not None
    with recording:
        ended = {(one.device, one.id) for one in recording.never_freed()}
    assert ended == {(one.device, one.id) for one in region.snapshot.buffers or ()}
    assert len(ended) == 4


def test_call_sites_of_a_report_say_how_much_each_did_not_free(file: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert main(["report", str(file), "-o", str(page)]) == 0

    document, _ = ask(page, [], tmp_path)

    strings = document["strings"]
    left = {strings[row["site"]]: row["at_end"] for row in document["sites"]}
    assert left == {"model.py:3 load": 1 * MIB, "model.py:5 keep": 2 * MIB, "model.py:7 scratch": 0}
