"""`ttmem leaks` on recordings of the model's workloads: it finds the leak, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.own_process import finish

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
    file = tmp_path / "run.ttmem"
    run = finish("simulate", workload, "--steps", steps, "--rate", 0, "-o", file)

    done = finish("leaks", file, "--json")

    found = {finding["verdict"] for finding in json.loads(done.stdout)["findings"]}
    assert run.returncode == 0, run.stderr
    assert (done.returncode, found - {"warm-up", "steady"}) == (code, verdicts)
