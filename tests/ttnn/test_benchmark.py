"""The benchmark of the probe in stock ttnn works; its speed is not judged."""

from __future__ import annotations

from tests.benchmarks.short_runs import foreign_region, short_run
from tests.ttnn.bench.environment import Environment


def test_the_real_runtime_is_measured_beside_a_foreign_region(environment: Environment) -> None:
    with foreign_region():
        run = short_run("probe_ttnn")

    assert run.returncode == 0, run.stderr
    assert "probe in ttnn, p150" in run.stdout
