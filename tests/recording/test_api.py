"""Recording from Python."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import ttmem
from ttmem.recording import Recording
from ttmem.recording.context import without_secrets


def test_a_program_records_a_block_and_marks_an_instant_of_it(tmp_path: Path) -> None:
    path = tmp_path / f"run-{os.getpid()}.ttmem"

    with ttmem.record(str(tmp_path / "run-%p.ttmem"), shm=str(tmp_path)):
        ttmem.mark("warm-up is over")
    ttmem.mark("nobody records now")

    with Recording(str(path)) as recording:
        marks = [(mark.kind, mark.text, mark.pid) for mark in recording.markers]
        assert marks == [("mark", "warm-up is over", os.getpid())]
        assert recording.info().closed
    assert ttmem.snapshot(str(path), at="end").devices == ()


def test_an_existing_file_is_refused_before_the_block_runs(tmp_path: Path) -> None:
    path = tmp_path / "run.ttmem"
    path.touch()
    ran = False

    with pytest.raises(ttmem.BadInput), ttmem.record(str(path), shm=str(tmp_path)):
        ran = True

    assert not ran


def test_a_mark_in_a_confidential_recording_has_no_directories(tmp_path: Path) -> None:
    path = tmp_path / "run.ttmem"

    with ttmem.record(str(path), shm=str(tmp_path), confidential=True):
        ttmem.mark("loaded /home/ann/secret/weights.bin")

    with Recording(str(path)) as recording:
        assert [mark.text for mark in recording.markers] == ["loaded weights.bin"]
    assert b"secret" not in path.read_bytes()


def test_no_part_of_a_command_stays_in_a_confidential_text() -> None:
    secret = "exec(eval(sys.stdin.read())) --token 7"
    text = f"a free of an unknown buffer, from pid 42 (python -c {secret}); see /home/ann/x.py:7"

    kept = without_secrets({"remarks": [{"text": text, "command": secret}]})

    assert kept == {
        "remarks": [
            {"text": "a free of an unknown buffer, from pid 42; see x.py:7", "command": None}
        ]
    }
