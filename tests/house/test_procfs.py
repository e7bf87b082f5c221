"""A process is (pid, start time): alive, ended, or another one with its pid."""

from __future__ import annotations

import os
import subprocess
import time

from ttmem.procfs import is_alive, process_facts, start_time_ns


def test_a_running_process_is_alive_and_known() -> None:
    with subprocess.Popen(["sleep", "60"]) as child:
        # For an instant within exec the kernel shows an empty command line.
        while (facts := process_facts(child.pid)).command is None:
            time.sleep(0.01)
        assert is_alive(child.pid, facts.start_time_ns)
        assert facts.command == "sleep 60"
        assert abs((facts.start_time_ns or 0) - time.time_ns()) < 60_000_000_000
        child.kill()


def test_one_that_ended_is_dead_even_before_its_parent_asks() -> None:
    with subprocess.Popen(["true"]) as child:
        while start_time_ns(child.pid) is not None:
            time.sleep(0.01)
        assert not is_alive(child.pid, None)
    assert not is_alive(child.pid, None)


def test_another_process_with_the_same_pid_is_not_the_one() -> None:
    started = start_time_ns(os.getpid())
    assert started is not None
    assert not is_alive(os.getpid(), started - 10_000_000)
