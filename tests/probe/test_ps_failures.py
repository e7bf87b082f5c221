"""`ttmem ps` beside watched processes in which allocations failed."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from tests.own_process import finish
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
    done = finish("ps", "--shm", folder, *options)
    assert done.returncode == 0, done.stderr
    return " ".join(done.stdout.split())


def test_a_failure_is_a_note_with_size_kind_line_and_verdict(watch: Watch, tmp_path: Path) -> None:
    process = failing(watch, 1)

    shown = notes(tmp_path)

    assert re.search(
        r"! device 0: an allocation FAILED: 2.0 TiB of L1 for model\.py:2 <module>; "
        rf"too large: it would not fit into an empty device; pid {process.process.pid} .*, \d+ s ago",
        shown,
    )
    assert shown.count("model.py:2") == 1


def test_of_many_failures_the_last_is_told_and_the_others_are_counted(
    watch: Watch, tmp_path: Path
) -> None:
    failing(watch, 3)

    shown = notes(tmp_path)

    assert shown.count("FAILED") == 1
    assert "3 allocations FAILED: the last one 2.0 TiB" in shown


def test_a_process_that_is_not_shown_or_has_ended_has_no_note(watch: Watch, tmp_path: Path) -> None:
    process = failing(watch, 1)
    assert "FAILED" in notes(tmp_path)
    other = watch("mesh = lib.mesh_open(1); buffer(mesh, 1, 0, 64); say('made'); input()")
    other.wait_for("made")

    assert "FAILED" not in notes(tmp_path, "--pid", str(other.process.pid))
    process.close()
    assert "FAILED" not in notes(tmp_path)
