"""`ttmem demo` ends by itself or on request, and leaves nothing behind."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest

from tests.own_process import finish, processes_that_name, start
from tests.patience import PATIENCE_S, wait_until


def test_the_demo_ends_by_itself_and_leaves_nothing(tmp_path: Path) -> None:
    code, out, error = finish("demo", "--seconds", 2, TMPDIR=str(tmp_path), COLUMNS="120")

    assert (code, error) == (0, "")
    assert re.findall("^--- .*", out, re.MULTILINE) == ["--- warming up", "--- answering"]
    assert re.search(r" device 3: peak DRAM \d.* programs cached, .* dispatches \(", out)
    assert (list(tmp_path.iterdir()), processes_that_name(tmp_path)) == ([], [])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_demo_that_is_stopped_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    process = start("demo", "--seconds", 60, TMPDIR=str(tmp_path))
    wait_until(lambda: len(processes_that_name(tmp_path)) == 5)
    process.send_signal(number)
    process.communicate(timeout=PATIENCE_S)

    assert process.returncode == 128 + number
    assert (list(tmp_path.iterdir()), processes_that_name(tmp_path)) == ([], [])


@pytest.mark.parametrize("victim", ["serve", "transformer"])
def test_a_demo_says_who_died(tmp_path: Path, victim: str) -> None:
    process = start("demo", "--seconds", 60, TMPDIR=str(tmp_path))
    wait_until(lambda: len(processes_that_name(tmp_path)) == 5)
    (pid,) = set(processes_that_name(tmp_path)) & set(processes_that_name(f"\0{victim}\0"))
    os.kill(pid, signal.SIGKILL)
    _, error = process.communicate(timeout=PATIENCE_S)
    name = "server" if victim == "serve" else victim

    assert process.returncode == 1
    assert f"the demo's {name} was killed by signal 9" in error
    assert (list(tmp_path.iterdir()), processes_that_name(tmp_path)) == ([], [])


@pytest.mark.parametrize("seconds", ["0", "nan", "1e9"])
def test_a_demo_wants_a_possible_time(seconds: str) -> None:
    code, _, error = finish("demo", "--seconds", seconds)

    assert (code, error.startswith("ttmem: --seconds must be above 0")) == (2, True)
