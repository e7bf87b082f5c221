"""`ttmem run -o` keeps what the watched processes did, and every view shows it again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.own_process import finish, printed
from tests.probe.watched import Launcher
from ttmem.recording import Recording

SCRIPT = (
    "import time\n"
    "mesh = lib.mesh_open(1)\n"
    "held = [buffer(mesh, number, 0, 4096) for number in range(1, 101)]\n"
    "time.sleep(0.5)\n"
    "for each in held: lib.buffer_free(each)\n"
    "buffer(mesh, 200, 0, 2 << 40)\n"
    "lib.mesh_close(mesh)\n"
)


def _shown(path: Path, at: str, *details: str) -> Any:
    return printed("ps", path, "--at", at, *details)


@pytest.fixture
def recorded(launcher: Launcher, tmp_path: Path) -> Path:
    path = tmp_path / "run.ttmem"
    done = launcher.run(*launcher.program(SCRIPT), options=("-o", str(path)))
    assert done.returncode == 0, done.stderr
    assert f"in {path}" in done.stderr
    return path


def test_events_that_the_ring_lost_are_told_by_the_last_line_and_by_info(
    launcher: Launcher,
) -> None:
    file = launcher.folder / "few.ttmem"
    script = launcher.program("mesh = lib.mesh_open(1); lib.churn(mesh, 100, 5000)")

    done = launcher.run(*script, options=("--events", "64", "-o", str(file)))

    assert "of programs were lost before" in done.stderr
    with Recording(str(file)) as recording:
        assert recording.dropped_events() > 0


def test_a_run_can_be_shown_at_its_peak_at_its_failure_and_at_its_end(recorded: Path) -> None:
    peak = _shown(recorded, "peak:dram", "--detail", "buffers,events,history")
    failed = _shown(recorded, "oom")
    end = _shown(recorded, "end")

    (device,) = peak["devices"]
    assert device["memory"]["dram"]["count"] == len(peak["buffers"]) == 100
    assert device["memory"]["dram"]["held"] == device["memory"]["dram"]["peak"]
    assert all(buffer["site"].endswith(" buffer") for buffer in peak["buffers"])
    assert failed["devices"][0]["memory"]["dram"]["held"] == 0
    assert end["processes"] == []


def test_info_describes_and_verifies_the_file_and_cut_makes_a_smaller_one(
    recorded: Path, tmp_path: Path
) -> None:
    part = tmp_path / "part.ttmem"
    info = finish("info", str(recorded))
    cut = finish("cut", str(recorded), "--from", "peak:dram", "--to", "oom", "-o", str(part))

    assert info.returncode == 0, info.stdout
    assert "the writer closed it" in info.stdout
    assert "1 process start, 1 failed allocation, 1 process end" in info.stdout
    assert cut.returncode == 0, cut.stderr
    whole, less = _shown(recorded, "oom"), _shown(part, "oom")
    assert (whole["host"].pop("recording")["file"], less["host"].pop("recording")["file"]) == (
        str(recorded),
        str(part),
    )
    assert less == whole
    with Recording(str(part)) as recording:
        assert not recording.verify()


MARKS = (
    "import ttmem\n"
    "mesh = lib.mesh_open(1)\n"
    "with ttmem.record({own!r}, shm={folder!r}):\n"
    "    ttmem.mark('warm-up is over')\n"
    "    held = buffer(mesh, 1, 0, 4096)\n"
    "with ttmem.record({other!r}, shm={elsewhere!r}):\n"
    "    ttmem.mark('the \\0 end')\n"
    "lib.mesh_close(mesh)\n"
)


def test_a_mark_of_the_program_is_once_in_each_of_its_recordings(
    launcher: Launcher, tmp_path: Path
) -> None:
    path, own, other = (tmp_path / f"{name}.ttmem" for name in ("run", "own", "other"))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    places = {"own": own, "other": other, "folder": launcher.folder, "elsewhere": elsewhere}
    script = MARKS.format(**{name: str(place) for name, place in places.items()})
    done = launcher.run(*launcher.program(script), options=("-o", str(path)))
    assert done.returncode == 0, done.stderr

    def marks(file: Path) -> list[str]:
        with Recording(str(file)) as recording:
            return [mark.text for mark in recording.markers if mark.kind == "mark"]

    assert marks(path) == ["warm-up is over", "the   end"]
    assert marks(own) == ["warm-up is over"]
    assert marks(other) == ["the \0 end"]
    with Recording(str(path)) as recording:
        (mark, *_) = (one for one in recording.markers if one.kind == "mark")
        assert recording.at(f"#{mark.position}").devices[0].memory.dram.count == 0
        assert recording.at("peak:dram").devices[0].memory.dram.count == 1


def test_an_existing_file_is_refused_before_anything_runs(
    launcher: Launcher, recorded: Path, tmp_path: Path
) -> None:
    before = recorded.read_bytes()
    witness = tmp_path / "ran"
    done = launcher.run("touch", str(witness), options=("-o", str(recorded)))

    assert (done.returncode, witness.exists()) == (2, False)
    assert "exists; --overwrite replaces it" in done.stderr
    assert recorded.read_bytes() == before


def test_a_confidential_recording_has_neither_command_lines_nor_directories(
    launcher: Launcher, tmp_path: Path
) -> None:
    path = tmp_path / "run.ttmem"
    options = ("-o", str(path), "--confidential")
    done = launcher.run(*launcher.program(SCRIPT), options=options)
    assert done.returncode == 0, done.stderr

    shown = _shown(path, "peak:dram", "--detail", "buffers,events")
    text = json.dumps(shown) + finish("info", str(path), "--json").stdout.replace(str(path), "")

    assert all(buffer["site"].endswith(" buffer") for buffer in shown["buffers"])
    assert "python" not in text
    assert str(tmp_path) not in text.replace(str(launcher.folder), "")
