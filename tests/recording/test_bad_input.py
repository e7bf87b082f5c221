"""Recordings from elsewhere, and files that cannot be written: one clear message each."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.other_user import as_plain_user, give_away, needs_root
from tests.recording.rewriting import rewritten
from ttmem.events import EVENT_SIZE, Event
from ttmem.events.record import Control
from ttmem.recording import Recording
from ttmem.recording.format import ChunkType

GOLDEN = Path(__file__).parents[1] / "data" / "recordings" / "version-1.ttmem"


def _ttmem(*arguments: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "ttmem", *arguments]
    return subprocess.run(command, capture_output=True, timeout=120, check=False, **options)


def test_times_that_go_backwards_leave_every_event_and_an_order(tmp_path: Path) -> None:
    times: list[int] = []

    def change(kind: ChunkType, payload: bytes) -> bytes:
        if kind is not ChunkType.RECORDS:
            return payload
        out = bytearray()
        for at in range(0, len(payload), EVENT_SIZE):
            event = Event.unpack(payload, at)
            if event.op < Control.BATCH and event.time:
                times.append(event.time)
                event = event._replace(time=max(1, times[0] - 1000 * len(times)))
            out += event.pack()
        return bytes(out)

    path = tmp_path / "backwards.ttmem"
    path.write_bytes(rewritten(GOLDEN, change))

    with Recording(str(path)) as recording, Recording(str(GOLDEN)) as golden:
        info = recording.info()
        reached = [recording.time_at(position) for position in range(info.end + 1)]
        live = recording.at("end", ["buffers"]).buffers
        expected = golden.at("end", ["buffers"]).buffers
        by_time = [recording.instant(f"{part / 10}s").position for part in range(30)]

    assert times
    assert reached == sorted(reached)
    assert by_time == sorted(by_time)
    assert [(b.id, b.requested) for b in live or ()] == [
        (b.id, b.requested) for b in expected or ()
    ]


def test_no_permission_and_no_directory_are_said_before_anything_runs(tmp_path: Path) -> None:
    missing = tmp_path / "missing" / "a.ttmem"
    for verb in (
        ("record", str(missing), "--shm", str(tmp_path)),
        ("simulate", "cnn", "-o", str(missing)),
    ):
        done = _ttmem(*verb)
        assert done.returncode == 1, verb
        assert b"cannot be written: No such file or directory" in done.stderr
        assert b"Traceback" not in done.stderr


def test_two_recorders_do_not_share_a_file(tmp_path: Path) -> None:
    path = tmp_path / "a.ttmem"
    command = [sys.executable, "-m", "ttmem", "record", str(path), "--shm", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as first:
        try:
            from tests.patience import wait_until

            wait_until(lambda: path.exists() and path.stat().st_size > 0)
            second = _ttmem("record", str(path), "--shm", str(tmp_path), "--overwrite")
        finally:
            first.send_signal(signal.SIGINT)
            first.communicate(timeout=60)

    assert (second.returncode, first.returncode) == (2, 0)
    assert b"is being written by another process" in second.stderr
    with Recording(str(path)) as recording:
        assert recording.info().closed


@needs_root
@pytest.mark.slow
def test_the_recording_of_another_user_is_refused_in_one_line(tmp_path: Path) -> None:
    path, mine = tmp_path / "theirs.ttmem", tmp_path / "mine.ttmem"
    for file in (path, mine):
        file.write_bytes(GOLDEN.read_bytes())
    give_away(path)

    for verb in (
        ("ps", str(path)),
        ("top", str(path)),
        ("dump", str(path)),
        ("info", str(path)),
        ("export", str(path), "--to", "csv"),
        ("report", str(path), "-o", str(tmp_path / "report.html")),
        ("cut", str(path), "-o", str(tmp_path / "part.ttmem")),
        ("diff", str(mine), str(path)),
    ):
        done = as_plain_user(*verb)
        assert (done.returncode, done.stdout) == (2, ""), verb
        assert done.stderr == f"ttmem: {path} cannot be read: Permission denied\n", verb
    assert sorted(path.name for path in tmp_path.iterdir()) == [mine.name, path.name]


@needs_root
@pytest.mark.slow
def test_a_directory_that_cannot_be_written_is_said_in_one_line(tmp_path: Path) -> None:
    closed, ran = tmp_path / "closed", tmp_path / "ran"
    closed.mkdir(mode=0o555)
    out, golden = str(closed / "out"), str(GOLDEN)

    for verb in (
        ("run", "--shm", str(tmp_path), "-o", out, "--", "touch", str(ran)),
        ("record", out, "--shm", str(tmp_path)),
        ("simulate", "cnn", "-o", out),
        ("serve", "--socket", str(tmp_path / "socket"), "--record", out),
        ("cut", golden, "-o", out),
        ("export", golden, "--to", "csv", "-o", out),
        ("export", golden, "--to", "parquet", "-o", out),
        ("export", golden, "--to", "visualizer", "-o", out),
        ("report", golden, "-o", out),
    ):
        done = as_plain_user(*verb)
        code = 2 if verb[0] == "serve" else 1  # it takes a directory, and does not start
        assert (done.returncode, done.stdout) == (code, ""), (verb, done.stderr)
        (said,) = (line for line in done.stderr.splitlines() if " INFO " not in line)
        assert said.startswith(f"ttmem: {out} cannot be "), verb
        assert said.endswith(": Permission denied"), verb
    assert not ran.exists()
