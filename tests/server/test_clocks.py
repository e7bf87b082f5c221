"""Clocks that stand before 1970, after 2262, or are set while a server runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.own_process import finish
from tests.patience import PATIENCE_S, wait_until
from ttmem.api import snapshot
from ttmem.client import AllocationClient, MemoryKind
from ttmem.errors import TtmemError

# A clock that is so many years off, and is set once more when the file appears; after 2262 CPython has no time.
CLOCK = """
import logging, os, sys, time  # which does not even load after 2262
clock, offset, jump, file = time.time_ns, int(sys.argv.pop(1)), int(sys.argv.pop(1)), sys.argv.pop(1)
def time_ns():
    now = clock() + (jump if os.path.exists(file) else offset) * 365 * 86_400 * 10**9
    if now >= 1 << 63:
        raise OverflowError("timestamp too large to convert to C _PyTime_t")
    return now
time.time_ns, time.time = time_ns, lambda: time_ns() / 1e9
"""
SERVER = (
    CLOCK
    + """
from ttmem.commands import main
sys.exit(main())
"""
)
CLIENT = (
    CLOCK
    + """
from ttmem.client import AllocationClient, MemoryKind
client = AllocationClient(sys.argv[1])
client.report_allocation(0, 1, 4096, MemoryKind.L1)
client.report_allocation(0, "nonsense", 4096, MemoryKind.L1)
print(client.flush(120), client.stats().dropped, flush=True)
input()
"""
)


@contextmanager
def served(folder: Path, years: int, later: int = 0) -> Iterator[str]:
    place = str(folder / "socket")
    command = [sys.executable, "-c", SERVER, str(years), str(later), str(folder / "jump")]
    with subprocess.Popen([*command, "serve", "--socket", place]) as process:
        try:
            wait_until(lambda: process.poll() is not None or answers(place))
            yield place
            assert process.poll() is None
        finally:
            process.kill()


def answers(place: str) -> bool:
    try:
        snapshot(place)
    except TtmemError:
        return False
    return True


def ttmem(*arguments: str) -> str:
    done = finish(*arguments)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("years", [-80, 240])
def test_every_view_works_whatever_the_servers_clock_says(tmp_path: Path, years: int) -> None:
    with served(tmp_path, years) as place, closing(AllocationClient(place)) as reporter:
        reporter.report_allocation(0, 1, 4096, MemoryKind.L1)
        reporter.report_ring(0, 100, 1, 2, 200, 3)
        reporter.flush()
        wait_until(lambda: [d.l1_used for d in snapshot(place).devices] == [4096])
        wait_until(lambda: len(history(place)) >= 2)

        (device,) = snapshot(place).devices
        assert device.kernels.ring.occupied == 100
        assert device.memory.l1.peak == 4096
        detail = ("--detail", "buffers,events,history,cores,programs")
        document = json.loads(ttmem("ps", "--socket", place, "--json", *detail))
        assert [process["pid"] for process in document["processes"]] == [os.getpid()]
        assert [event["size"] for event in document["events"]][:1] == [4096]
        assert "4.0 KiB" in ttmem("ps", "--socket", place)
        assert "4.0 KiB" in ttmem("top", "--once", "--socket", place)
        assert "4096" in ttmem("dump", "--socket", place, "--json").replace(",", "")


@pytest.mark.parametrize("years", [-80, 240])
def test_a_client_reports_whatever_its_clock_says(tmp_path: Path, years: int) -> None:
    command = [sys.executable, "-c", CLIENT, str(years), "0", str(tmp_path / "jump")]
    with served(tmp_path, 0) as place:
        with subprocess.Popen(
            [*command, place], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as client:
            assert client.stdout is not None
            assert client.stdout.readline() == "True 1\n"

            wait_until(lambda: [d.l1_used for d in snapshot(place).devices] == [4096])
            client.communicate("\n", timeout=PATIENCE_S)

        assert client.returncode == 0


def test_a_clock_that_is_set_back_ends_no_process(tmp_path: Path) -> None:
    with served(tmp_path, 10, -80) as place, closing(AllocationClient(place)) as reporter:
        reporter.report_allocation(0, 1, 4096, MemoryKind.L1)
        wait_until(lambda: [d.l1_used for d in snapshot(place).devices] == [4096])
        (tmp_path / "jump").touch()
        wait_until(lambda: snapshot(place).time_ns < 0)
        reporter.report_allocation(0, 2, 4096, MemoryKind.L1)

        wait_until(lambda: [d.l1_used for d in snapshot(place).devices] == [8192])
        assert [process.pid for process in snapshot(place).processes] == [os.getpid()]
        assert snapshot(place).left_behind == ()


def history(place: str) -> list[int]:
    found = snapshot(place, ["history"]).history or {}
    return [time for columns in found.values() for time in columns.time_ns]
