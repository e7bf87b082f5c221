"""`make soak` takes an hour; this shows in some seconds that it watches everything, and that nothing runs away."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.own_process import ran


def test_a_short_soak_finds_server_monitor_and_client_flat() -> None:
    short = {"SOAK_SECONDS": "12", "TTMEM_BENCH_SHORT": "1"}

    run = ran(
        [sys.executable, "-m", "benchmarks.soak"],
        cwd=Path(__file__).parents[2],
        env=os.environ | short,
        timeout=600,
    )

    verdicts = {line[:24].strip(): line.split()[-1] for line in run.stdout.splitlines()[2:]}
    assert run.returncode == 0, run.stdout + run.stderr
    assert {"serve", "top", "client"} <= verdicts.keys()
    assert "GROWS" not in verdicts.values()
