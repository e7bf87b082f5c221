"""Memory is released with its owner: a mesh that is closed, a program that was replaced by `exec`."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.ttnn.bench.machine import Machine
from tests.ttnn.bench.session import Session
from tests.ttnn.probed import Machines, by_probe, by_runtime, region_of, start
from ttmem.feeds import LocalFeed
from ttmem.probe.layout import Counted
from ttmem.sources.probe.region import ProbeRegion

TENSOR = "ttnn.zeros((64, 64), ttnn.bfloat16, ttnn.TILE_LAYOUT, {})"
DEADLINE_S = 120


def test_a_parent_that_closes_before_its_submeshes_leaves_what_they_hold(machine: Machines) -> None:
    there = machine("t3k")
    session = start(there, worker_dispatch=True)
    region = region_of(there, session)
    session.run(
        "below = device.create_submeshes(ttnn.MeshShape(2, 2))\n"
        f"kept = [{TENSOR.format('mesh')} for mesh in below]\n"
        f"above = [{TENSOR.format('device')} for _ in range(11)]\n"
        "total = ttnn.add(above[0], above[1])\nNone"
    )
    one = by_probe(region)[0]["dram"] // 13
    demand = _demand(region)

    session.run("ttnn.close_mesh_device(device)")
    closed = by_probe(region)
    session.run("device = ttnn.open_mesh_device(ttnn.MeshShape(2, 4))\nNone")
    reopened = by_runtime(session.views())
    session.run("kept.clear()\nNone")

    assert [row["dram"] for row in closed] == [one] * 8  # that of a submesh, on each chip
    assert (min(demand) > 0, _demand(region)) == (True, [0] * 8)
    assert by_probe(region) == [reopened] * 8


@pytest.mark.parametrize("watched", [True, False])
def test_a_program_that_follows_by_exec_holds_nothing_of_the_one_before(
    machine: Machines, own_folder: Path, watched: bool
) -> None:
    there = machine("p150")
    session = _session(there, own_folder, watched)
    session.run(f"kept = {TENSOR.format('device')}\nNone")
    [region] = there.regions
    region.rename(own_folder / region.name)
    before = LocalFeed(str(own_folder)).read()

    session.send("import os; os.execv('/bin/sleep', ['sleep', '600'])")
    _wait_for_exec(session)
    after = LocalFeed(str(own_folder)).read()
    session.kill()

    (chip,) = there.unique_ids
    assert [process.pid for process in before.processes] == [session.pid]
    held = before.processes[0].devices[str(chip)].dram
    assert held == before.devices[0].memory.dram.held > 0
    assert [device.memory.dram.held for device in after.devices] == [0]
    assert after.processes == ()
    (left,) = after.left_behind
    assert (left.pid, left.devices[str(chip)].dram) == (session.pid, held)


def _demand(region: ProbeRegion) -> list[int]:
    """Of circular buffers, on each chip."""
    return [row[Counted.CB_DEMAND].reserved for row in region.counters()]


def _session(there: Machine, folder: Path, watched: bool) -> Session:
    return start(there, TTMEM_REGION_DIR=str(folder)) if watched else there.session()


def _wait_for_exec(session: Session) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while Path(f"/proc/{session.pid}/comm").read_text() != "sleep\n":
        assert time.monotonic() < deadline, "there was no exec"
        time.sleep(0.01)
