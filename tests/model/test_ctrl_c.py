"""Ctrl-C on several simulated processes: each ends between two steps, and nothing is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from tests.patience import PATIENCE_S
from tests.server.harness import RunningServer


@pytest.mark.parametrize("workload", ["leak", "transformer"])
def test_ctrl_c_ends_every_process_cleanly(server: RunningServer, workload: str) -> None:
    command = [sys.executable, "-m", "ttmem", "simulate", workload, "--processes", "3"]
    options = ["--rate", "100", "--steps", "0", "--size", "small", "--socket", server.path]
    with subprocess.Popen(
        [*command, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as simulation:
        server.sees(lambda p: len(p.processes) == 3 and len(p.devices) >= 3)
        os.killpg(simulation.pid, signal.SIGINT)
        said, complaints = simulation.communicate(timeout=PATIENCE_S)

    assert simulation.returncode == 130
    assert (said.count(f"{workload}: "), complaints) == (3, "")
    picture = server.sees(lambda p: not p.processes)
    assert picture.left_behind == ()


@pytest.mark.parametrize("which", [0, 1])
def test_a_killed_one_is_named(server: RunningServer, which: int) -> None:
    command = [sys.executable, "-m", "ttmem", "simulate", "cnn", "--processes", "2"]
    options = ["--rate", "20", "--steps", "0", "--size", "small", "--socket", server.path]
    with subprocess.Popen([*command, *options], stderr=subprocess.PIPE, text=True) as simulation:
        picture = server.sees(lambda p: len(p.processes) == 2)
        victim = sorted(process.pid for process in picture.processes)[which]
        os.kill(victim, signal.SIGKILL)
        server.sees(lambda p: len(p.processes) == 1)
        simulation.send_signal(signal.SIGTERM)
        _, complaints = simulation.communicate(timeout=PATIENCE_S)

    assert complaints == f"ttmem: process {victim} was killed by signal 9\n"
    assert simulation.returncode == 1
