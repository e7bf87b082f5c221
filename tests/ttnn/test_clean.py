"""`ttmem clean` in a region that the real runtime is using."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.ttnn.bench.machine import Machine
from ttmem.clean import Backups, carry_out, make_plan
from ttmem.clean.planning import Scope
from ttmem.events import Owner
from ttmem.sources.host.surroundings import surroundings
from ttmem.sources.shared_memory import SharedMemory

TENSOR = "ttnn.zeros((1024, 1024), ttnn.bfloat16, ttnn.TILE_LAYOUT, device)"
TENSOR_BYTES = 2 * 1024 * 1024


def _owners(folder: Path) -> dict[int, tuple[Owner, int]]:
    (device,) = SharedMemory(str(folder)).read().devices
    return {each.pid: (each.owner, each.counters.dram) for each in device.processes}


def test_after_a_kill_the_row_is_free_again_and_the_others_go_on(
    machine: Callable[[str], Machine], own_folder: Path, tmp_path: Path
) -> None:
    there = machine("p150")
    first, second, third = (there.session() for _ in range(3))
    for session in (first, second, third):
        session.run(f"a = {TENSOR}")
    [region] = there.regions
    (own_folder / region.name).hardlink_to(region)  # nothing else of this machine is cleaned
    killed = second.pid
    second.kill()
    before = _owners(own_folder)

    here = surroundings()
    scope = Scope(str(own_folder), None, force=here.hidden_pids or not here.host_pids)
    ((outcome,), _) = carry_out(make_plan(scope), Backups(tmp_path))
    first.run(f"b = {TENSOR}")
    fourth = there.session()
    fourth.run(f"a = {TENSOR}")

    assert outcome.problem is None
    assert before[killed] == (Owner.DEAD, TENSOR_BYTES)
    assert _owners(own_folder) == {
        first.pid: (Owner.LIVE, 2 * TENSOR_BYTES),
        third.pid: (Owner.LIVE, TENSOR_BYTES),
        fourth.pid: (Owner.LIVE, TENSOR_BYTES),
    }
