"""`ttmem leaks` on recordings of the model's workloads: it finds the leak, and nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("workload", "steps", "code", "verdicts"),
    [
        ("leak", 40, 1, {"leak"}),
        ("shapes", 60, 0, {"cache growth"}),
        ("transformer", 60, 0, set()),
        ("serving", 200, 0, set()),
        ("cnn", 60, 0, set()),
    ],
)
def test_a_workload_gets_its_verdict(
    tmp_path: Path, workload: str, steps: int, code: int, verdicts: set[str]
) -> None:
    file = str(tmp_path / "run.ttmem")
    program = [sys.executable, "-m", "ttmem"]
    run = ["simulate", workload, "--steps", str(steps), "--rate", "0", "-o", file]
    subprocess.run([*program, *run], check=True, capture_output=True)

    done = subprocess.run(
        [*program, "leaks", file, "--json"], capture_output=True, text=True, check=False
    )

    found = {finding["verdict"] for finding in json.loads(done.stdout)["findings"]}
    assert (done.returncode, found - {"warm-up", "steady"}) == (code, verdicts)
