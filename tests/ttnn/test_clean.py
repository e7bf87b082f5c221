"""`ttmem clean` in a region that the real runtime is using."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.ttnn.bench.machine import Machine
from ttmem.clean.backup import Backups
from ttmem.clean.execution import carry_out
from ttmem.clean.planning import Plan, make_plan
from ttmem.events import Owner
from ttmem.sources.counters.source import CounterSource
from ttmem.sources.host import surroundings

TENSOR = "ttnn.zeros((1024, 1024), ttnn.bfloat16, ttnn.TILE_LAYOUT, device)"
TENSOR_BYTES = 2 * 1024 * 1024


def _owners(region: Path) -> dict[int, tuple[Owner, int]]:
    devices = CounterSource(str(region.parent)).read().devices
    (device,) = (each for each in devices if each.path == str(region))
    return {each.pid: (each.owner, each.counters.dram) for each in device.processes}


def test_after_a_kill_the_row_is_free_again_and_the_others_go_on(
    machine: Callable[[str], Machine], tmp_path: Path
) -> None:
    there = machine("p150")
    first, second, third = (there.session() for _ in range(3))
    for session in (first, second, third):
        session.run(f"a = {TENSOR}")
    [region] = there.regions
    killed = second.pid
    second.kill()
    before = _owners(region)

    here = surroundings()
    force = here.hidden_pids or not here.host_pids
    plan = make_plan(str(region.parent), None, force)
    own = tuple(step for step in plan.steps if step.path == str(region))
    ((outcome,), _) = carry_out(Plan(own, ()), Backups(tmp_path))
    first.run(f"b = {TENSOR}")
    fourth = there.session()
    fourth.run(f"a = {TENSOR}")

    assert outcome.problem is None
    assert before[killed] == (Owner.DEAD, TENSOR_BYTES)
    assert _owners(region) == {
        first.pid: (Owner.LIVE, 2 * TENSOR_BYTES),
        third.pid: (Owner.LIVE, TENSOR_BYTES),
        fourth.pid: (Owner.LIVE, TENSOR_BYTES),
    }
