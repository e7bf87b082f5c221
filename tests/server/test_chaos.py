"""`make chaos` takes a quarter of an hour; this runs each of its classes of faults for a moment."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from chaos.faults import CLASSES

from tests.own_process import ran


def test_no_fault_makes_a_total_wrong_or_loses_anything_uncounted() -> None:
    short = {"CHAOS_SECONDS": "60", "CHAOS_SEED": "11"}

    run = ran(
        [sys.executable, "-m", "chaos"],
        cwd=Path(__file__).parents[2],
        env=os.environ | short,
        timeout=1800,
    )

    rows = {line[:16].strip(): line[16:].split() for line in run.stdout.splitlines()[2:]}
    assert run.returncode == 0, run.stdout + run.stderr
    assert list(rows) == list(CLASSES)
    for name, (rounds, tried, survived, *_) in rows.items():
        assert rounds == "skipped:" or int(tried) == int(survived) > 0, name
