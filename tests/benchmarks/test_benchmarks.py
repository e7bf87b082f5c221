"""Every benchmark works on any host, whatever else runs there; tests do not judge speed."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.__main__ import ALL

from tests.benchmarks.short_runs import SHM, foreign_region, short_run

NEEDS = {"report": "chromium-headless-shell", "fleet": "prometheus"}  # of `make tools`


@pytest.mark.parametrize("name", [name for name in ALL if name != "probe_ttnn"])
def test_it_measures_beside_the_region_of_a_foreign_process(name: str) -> None:
    if shutil.which(NEEDS.get(name, sys.executable)) is None:
        pytest.skip(f"{NEEDS[name]} is not installed; `make tools` installs it")
    with foreign_region():
        run = short_run(name)

    assert run.returncode == 0, run.stderr
    assert len(run.stdout.splitlines()) > 1


def test_the_first_failure_ends_it_with_a_message(tmp_path: Path) -> None:
    run = short_run("probe", "ledger", PATH=str(tmp_path))  # where no compiler is

    assert run.returncode == 2
    assert "benchmarks: probe failed: " in run.stderr.splitlines()[-1]
    assert "measuring ledger" not in run.stderr


def test_nothing_is_left_behind_when_it_is_terminated() -> None:
    command = [sys.executable, "-m", "benchmarks", "server"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as run:
        assert run.stderr is not None
        run.stderr.readline()
        folders = f"ttmem-bench-{run.pid}-*"
        assert [*SHM.glob(folders)]

        run.terminate()
        run.stderr.read()  # until all its children have closed it

    assert run.returncode == 128 + signal.SIGTERM
    assert not [*SHM.glob(folders)]
