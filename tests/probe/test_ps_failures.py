"""`ttmem ps` beside watched processes in which allocations failed."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.probe.watched import Watched

Watch = Callable[..., Watched]
TOO_MUCH = 2 << 40
FAILS = (
    "mesh = lib.mesh_open(1)\n"
    f"for n in range(COUNT): lib.buffer_allocate(lib.buffer_make(mesh, n, 1, {TOO_MUCH}, 64))\n"
)


def failing(watch: Watch, count: int) -> Watched:
    """Alive, after that many failures."""
    model = FAILS.replace("COUNT", str(count))
    process = watch(f"exec(compile({model!r}, 'model.py', 'exec')); say('failed'); input()")
    process.wait_for("failed")
    return process


def notes(folder: Path, *options: str) -> str:
    """The picture without its line breaks."""
    command = [sys.executable, "-m", "ttmem", "ps", "--shm", str(folder), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return " ".join(done.stdout.split())


def test_a_failure_is_a_note_with_size_kind_line_and_verdict(watch: Watch, tmp_path: Path) -> None:
    process = failing(watch, 1)

    shown = notes(tmp_path)

    assert re.search(
        rf"! pid {process.process.pid}: no room for a buffer in L1 of device 0, \d+ s ago: 2.0 TiB, "
        r"asked by outside any op model\.py:2 <module>; too large: ",
        shown,
    )


def test_of_many_failures_the_last_is_told_and_the_others_are_counted(
    watch: Watch, tmp_path: Path
) -> None:
    failing(watch, 3)

    shown = notes(tmp_path)

    assert shown.count("no room for a buffer") == 1
    assert "the last of 3 failures" in shown


def test_a_process_that_is_not_shown_or_has_ended_has_no_note(watch: Watch, tmp_path: Path) -> None:
    process = failing(watch, 1)
    other = watch("mesh = lib.mesh_open(1); buffer(mesh, 1, 0, 64); say('made'); input()")
    other.wait_for("made")

    assert "no room" not in notes(tmp_path, "--pid", str(other.process.pid))
    process.close()
    assert "no room" not in notes(tmp_path)
