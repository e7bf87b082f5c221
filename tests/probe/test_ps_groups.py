"""`ttmem ps --by` beside watched processes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.probe.watched import Watched

Watch = Callable[..., Watched]


@pytest.mark.parametrize(
    ("sites", "by", "said"),
    [
        ("0", "op", "operations are not recorded"),
        ("0", "site", "call sites are not recorded"),
        ("1", "op", "outside any operation"),
    ],
)
def test_what_was_not_recorded_is_not_called_outside(
    watch: Watch, tmp_path: Path, sites: str, by: str, said: str
) -> None:
    process = watch(
        "mesh = lib.mesh_open(1); buffer(mesh, 1, 0, 64); say('done'); input()", TTMEM_SITES=sites
    )
    process.wait_for("done")

    command = [sys.executable, "-m", "ttmem", "ps", "--shm", str(tmp_path), "--by", by]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)

    assert said in shown.stdout
