"""Sessions: processes on one mocked machine, which fail, die and leave without a trace."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import astuple
from pathlib import Path

import pytest

from tests.ttnn.bench.environment import REPOSITORY, Environment
from tests.ttnn.bench.machine import Machine
from tests.ttnn.bench.session import SessionEnded, SnippetFailed

ORPHAN_MAKER = """
import time
from pathlib import Path
from tests.ttnn.bench.environment import Environment
from tests.ttnn.bench.machine import Machine
machine = Machine(Environment(*map(Path, {paths!r})), "p150")
session = machine.session()
session.run("1")
session.send("import time; time.sleep(10_000)")
print(session.pid, machine.folder, *machine.regions, flush=True)
time.sleep(10_000)
"""


def test_a_snippet_returns_the_value_of_its_last_line(machine: Callable[[str], Machine]) -> None:
    session = machine("n150").session(opened=False)

    session.run("def twice(x):\n    return 2 * x")

    assert session.run("twice(number)", number=21) == 42
    assert session.run("number = 1") is None


def test_a_snippet_that_fails_is_told_and_the_next_one_runs(
    machine: Callable[[str], Machine],
) -> None:
    session = machine("n150").session(opened=False)

    with pytest.raises(SnippetFailed, match="ZeroDivisionError"):
        session.run("1 / 0")

    assert session.run("1 + 1") == 2


def test_a_killed_process_answers_no_more(machine: Callable[[str], Machine]) -> None:
    session = machine("n150").session()
    session.run("1")

    os.kill(session.pid, signal.SIGKILL)

    with pytest.raises(SessionEnded, match="its log ends with"):
        session.run("1")
    session.kill()
    assert session.process.returncode == -signal.SIGKILL


def test_three_processes_share_one_device_and_its_region(
    machine: Callable[[str], Machine],
) -> None:
    there = machine("p150")
    sessions = [there.session() for _ in range(3)]
    for session in sessions:
        session.run("a = ttnn.zeros((32, 32), ttnn.bfloat16, ttnn.TILE_LAYOUT, device)")

    attached = [
        session.pid
        for session in sessions
        if str(there.regions[0]) in Path(f"/proc/{session.pid}/maps").read_text()
    ]

    assert [region.exists() for region in there.regions] == [True]
    assert attached == [session.pid for session in sessions]


def test_work_can_be_done_in_another_thread(machine: Callable[[str], Machine]) -> None:
    session = machine("n150").session(opened=False)

    same = session.run("import threading\nin_thread(threading.get_ident) == threading.get_ident()")

    assert same is False


def test_settings_of_the_runtime_can_be_given(machine: Callable[[str], Machine]) -> None:
    there = machine("p150")

    there.session(variables={"TT_METAL_SHM_TRACKING_DISABLED": "1"}).run("1")

    assert [region.exists() for region in there.regions] == [False]


def test_a_closed_machine_leaves_nothing_behind(environment: Environment) -> None:
    with Machine(environment, "p150x4") as there:
        session = there.session()
        session.run("1")
        assert [region.exists() for region in there.regions] == [True] * 4

    assert session.process.returncode == 0
    assert [path for path in (*there.regions, there.folder) if path.exists()] == []


def test_a_process_does_not_outlive_the_test_that_started_it(environment: Environment) -> None:
    paths = [str(path) for path in astuple(environment)]
    code = ORPHAN_MAKER.format(paths=paths)
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        pid, *left_behind = parent.stdout.readline().split()
        parent.kill()

    deadline = time.monotonic() + 60
    while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    subprocess.run(["rm", "-rf", *left_behind], check=True)
    assert not Path(f"/proc/{pid}").exists()
