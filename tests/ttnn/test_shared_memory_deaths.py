"""Three processes on the same devices, and one is killed: ttmem counts the other two, the stock totals all three."""

from __future__ import annotations

import os
import shutil
import signal
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.ttnn.bench.machine import SHARED_MEMORY, Machine
from tests.ttnn.bench.session import Session
from tests.ttnn.scripts.generator import boards_with_three_processes
from tests.ttnn.scripts.running import NOTHING, Figures, printed, shown
from ttmem.feeds import LocalFeed
from ttmem.snapshots import Device

TENSORS = """
d = ttnn.zeros((1024, 32 * tiles), ttnn.bfloat16, ttnn.TILE_LAYOUT, device)
l = ttnn.zeros((32, 32 * tiles), ttnn.bfloat16, ttnn.TILE_LAYOUT, device, ttnn.L1_MEMORY_CONFIG)
"""
TILE_BYTES = 2048


def asked(tiles: int) -> Figures:
    return NOTHING | {"dram": 32 * tiles * TILE_BYTES, "l1": tiles * TILE_BYTES}


def stored_dram(region: Path) -> int:
    """The total of layout version 3."""
    return int(struct.unpack_from("<Q", region.read_bytes(), 48)[0])


def killed_but_not_buried(session: Session) -> None:
    """As by the out-of-memory killer, with a parent that looks elsewhere: a zombie holds nothing."""
    os.kill(session.pid, signal.SIGKILL)
    os.waitid(os.P_PID, session.pid, os.WEXITED | os.WNOWAIT)


def devices(feed: LocalFeed, machine: Machine) -> list[Device]:
    return [device for device in feed.read().devices if int(device.unique_id) in machine.unique_ids]


@pytest.mark.parametrize("board", boards_with_three_processes())
def test_the_reading_after_a_kill_shows_the_other_two_exactly(
    board: str, machine: Callable[[str], Machine]
) -> None:
    there = machine(board)
    sessions = [there.session() for _ in range(3)]
    for tiles, session in enumerate(sessions, start=1):
        session.run(TENSORS, tiles=tiles)
    feed = LocalFeed(str(SHARED_MEMORY))
    whole = [asked(tiles) for tiles in (1, 2, 3)]
    assert [shown(feed, there, session.pid) for session in sessions] == [
        dict.fromkeys(there.unique_ids, figures) for figures in whole
    ]

    killed_but_not_buried(sessions[1])

    left = [asked(1), NOTHING, asked(3)]
    assert [shown(feed, there, session.pid) for session in sessions] == [
        dict.fromkeys(there.unique_ids, figures) for figures in left
    ]
    memories = [device.memory for device in devices(feed, there)]
    assert {memory.dram.requested for memory in memories} == {32 * 4 * TILE_BYTES}
    assert {memory.l1.requested for memory in memories} == {4 * TILE_BYTES}
    # Counters know nothing of banks.
    assert {use.reserved for memory in memories for use in (memory.dram, memory.l1)} == {None}
    # The runtime's own totals keep the dead one.
    assert {stored_dram(region) for region in there.regions} == {32 * 6 * TILE_BYTES}


def test_what_the_dead_left_behind_is_told_and_counted_in_no_sum(
    machine: Callable[[str], Machine],
) -> None:
    there = machine("p150")
    dead, alive = there.session(), there.session()
    for tiles, session in enumerate((dead, alive), start=1):
        session.run(TENSORS, tiles=tiles)

    dead.kill()
    picture = printed()

    [unique_id] = map(str, there.unique_ids)
    [device] = [device for device in picture["devices"] if device["unique_id"] == unique_id]
    ghosts = [anomaly for anomaly in device["anomalies"] if anomaly["kind"] == "ghost"]
    assert [(ghost["pid"], ghost["bytes"]) for ghost in ghosts] == [(dead.pid, 33 * TILE_BYTES)]
    there_now = {
        process["pid"]: process["devices"][unique_id]
        for process in picture["processes"]
        if unique_id in process["devices"]
    }
    assert there_now == {alive.pid: asked(2)}


WORK = """
d = ttnn.zeros((1024, 1024), ttnn.bfloat16, ttnn.TILE_LAYOUT, device)
l = ttnn.zeros((64, 1024), ttnn.bfloat16, ttnn.TILE_LAYOUT, device, ttnn.L1_MEMORY_CONFIG)
s = ttnn.add(l, l)
"""


@pytest.mark.parametrize("board", ["p150", "t3k"])
def test_processes_that_work_and_end_cleanly_leave_nothing_to_remark(
    board: str, machine: Callable[[str], Machine], tmp_path: Path
) -> None:
    there = machine(board)
    feed = LocalFeed(str(SHARED_MEMORY))

    def odd() -> set[str]:
        found = {anomaly.kind for device in devices(feed, there) for anomaly in device.anomalies}
        return found - {"publishes_nothing"}  # in the moment between opening and the first tensor

    sessions = [there.session(worker_dispatch=board == "t3k") for _ in range(3)]
    for session in sessions:
        session.run(WORK)
        assert odd() == set()
    sessions[0].run("ttnn.deallocate(d)")
    assert odd() == set()
    sessions[1].run("ttnn.close_mesh_device(device)")
    assert odd() == set()
    for session in (sessions[1], sessions[0], sessions[2]):
        session.close()
        assert odd() == set()

    for region in there.regions:  # a folder of its own, for there are other machines here
        shutil.copy(region, tmp_path)
    command = (sys.executable, "-m", "ttmem", "ps", "--shm", str(tmp_path))
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "nothing is running on a Tenstorrent device" in told
    assert "unused device" in told
    assert "no region" not in told
    assert "differ from the sum" not in told
