"""Ctrl-C on several simulated processes: each ends between two steps, and nothing is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

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
        said, complaints = simulation.communicate(timeout=60)

    assert simulation.returncode == 130
    assert (said.count(f"{workload}: "), complaints) == (3, "")
    picture = server.sees(lambda p: not p.processes)
    assert picture.left_behind == ()


def test_a_killed_one_is_named_at_once(server: RunningServer) -> None:
    command = [sys.executable, "-m", "ttmem", "simulate", "cnn", "--processes", "2"]
    options = ["--rate", "20", "--steps", "0", "--size", "small", "--socket", server.path]
    with subprocess.Popen([*command, *options], stderr=subprocess.PIPE, text=True) as simulation:
        picture = server.sees(lambda p: len(p.processes) == 2)
        victim = picture.processes[0].pid
        os.kill(victim, signal.SIGKILL)
        assert simulation.stderr is not None
        assert simulation.stderr.readline() == f"ttmem: process {victim} was killed by signal 9\n"
        simulation.send_signal(signal.SIGTERM)
        assert simulation.wait(60) == 1
