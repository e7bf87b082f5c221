"""A workload has programs for some chips of a mesh; the runtime compiles and lays out each for all of them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.probe.test_captured import events_of
from tests.probe.watched import DISPATCHING, Launcher, Watched, build_runtime
from ttmem.events import MemoryKind, Op
from ttmem.feeds import LocalFeed
from ttmem.probe.layout import Counted, LiveType
from ttmem.snapshots import Device
from ttmem.sources.probe.region import ProbeRegion
from ttmem.sources.probe.tables import Activity, Counter

Watch = Callable[..., Watched]
CORES = 4  # of every circular buffer
OFF, ON = "probe.ttmem_probe_track(0)\n", "probe.ttmem_probe_track(1)\n"
# Chips do not lie in the order of their numbers. The second program is for a column.
THREE = (
    DISPATCHING
    + """
mesh = grid(2, 2, 3, 2, 1, 0)
all = workload(mesh, {
    (0, 0, 0, 0): planned(mesh, 10, 1000),
    (0, 1, 1, 1): planned(mesh, 11, 2000),
    (1, 0, 1, 0): planned(mesh, 12, 3000, kernels=2),
})
for time in range(3): lib.workload_enqueue(all)
"""
)
BY_CHIP = {3: 1000 * CORES, 2: 2000 * CORES, 1: 3000 * CORES, 0: 2000 * CORES}
REJECTED = (
    DISPATCHING
    + """
mesh = grid(1, 2, 0, 1)
small, large = planned(mesh, 10, 1000), planned(mesh, 11, 2 << 20)
all = workload(mesh, {(0, 0, 0, 0): small, (0, 1, 0, 1): large})
assert lib.workload_enqueue(all) == 1
"""
)


def counters(region: ProbeRegion) -> dict[int, list[Counter]]:
    """By chip."""
    rows = zip(region.devices(), region.counters(), strict=True)
    return {device.logical_id: row for device, row in rows if device is not None}


def activity(region: ProbeRegion) -> dict[int, Activity]:
    """By chip."""
    rows = zip(region.devices(), region.activity(), strict=True)
    return {device.logical_id: row for device, row in rows if device is not None}


def demand(region: ProbeRegion) -> dict[int, int]:
    return {chip: row[Counted.CB_DEMAND].reserved for chip, row in counters(region).items()}


def staying(watch: Watch, script: str, **options: Any) -> Watched:
    """Done with the script, and alive."""
    process = watch(script + "\nsay('done'); input()", **options)
    process.wait_for("done")
    return process


def pictured(process: Watched) -> dict[int, Device]:
    """The devices as a reader shows them who comes now, by chip."""
    with closing(LocalFeed(str(process.folder))) as feed:
        return {device.logical_id or 0: device for device in feed.read().devices}


def test_a_program_is_on_the_chips_that_it_was_added_for(done: Watch) -> None:
    region = done(THREE).region()

    assert demand(region) == BY_CHIP
    on = {11: (3,), 12: (2, 0), 13: (1,)}
    parts = [entry for entry in region.live() if entry.type is not LiveType.PROGRAM]
    assert {(entry.program, entry.chips) for entry in parts} == set(on.items())


def test_each_chip_has_one_dispatch_for_each_program_that_ran_on_it(done: Watch) -> None:
    region = done(THREE).region()

    assert {
        chip: (
            found.dispatches,
            found.hits,
            found.misses,
            found.programs_compiled,
            found.kernels_loaded,
        )
        for chip, found in activity(region).items()
    } == {chip: (3, 2, 1, 1, 2 if chip == 1 else 1) for chip in BY_CHIP}
    told = [event for event in events_of(region.new_events()) if event.op == Op.PROGRAM_DISPATCH]
    assert {(event.device, event.id) for event in told} == {(3, 11), (2, 12), (0, 12), (1, 13)}


@pytest.mark.parametrize("late", [False, True])
def test_every_figure_of_a_chip_is_that_of_its_own_programs(watch: Watch, late: bool) -> None:
    # All that the late reader finds of the programs is the table of what is alive.
    events = "64" if late else "4096"
    process = staying(watch, THREE + "lib.churn(mesh, 1000, 200)", TTMEM_EVENTS=events)

    devices = pictured(process)

    for chip, held in BY_CHIP.items():
        cb, kernels = devices[chip].memory.cb, devices[chip].kernels
        assert (cb.resident, cb.cached, cb.demand) == (None if late else held, held, held)
        assert devices[chip].l1_used == held
        assert kernels.count == (2 if chip == 1 else 1)
        assert (kernels.dispatches, kernels.cache_hits, kernels.cache_misses) == (3, 2, 1)
        assert kernels.cache_entries == 1


def test_a_range_is_one_of_the_mesh_that_dispatches_not_of_its_parent(done: Watch) -> None:
    process = done(
        DISPATCHING
        + "parent = grid(1, 4, 0, 1, 2, 3); mesh = grid(1, 2, 2, 3)\n"
        + "all = workload(mesh, {(0, 1, 0, 1): planned(mesh, 10, 1000)})\n"
        + "lib.workload_enqueue(all)",
    )

    assert demand(process.region()) == {0: 0, 1: 0, 2: 0, 3: 1000 * CORES}
    assert [activity.dispatches for activity in process.region().activity()] == [0, 0, 0, 1]


def test_a_range_may_wrap_around_the_mesh(done: Watch) -> None:
    process = done(
        DISPATCHING
        + "mesh = grid(1, 4, 0, 1, 2, 3)\n"
        + "all = workload(mesh, {(0, 3, 0, 0): planned(mesh, 10, 1000)})\n"
        + "lib.workload_enqueue(all)",
    )

    assert demand(process.region()) == {0: 1000 * CORES, 1: 0, 2: 0, 3: 1000 * CORES}


def test_a_workload_that_joined_while_off_is_on_its_own_chips_while_on(done: Watch) -> None:
    process = done(
        DISPATCHING
        + "mesh = grid(1, 2, 0, 1)\n"
        + OFF
        + "all = workload(mesh, {(0, 1, 0, 1): planned(mesh, 10, 1000)})\n"
        + "lib.workload_enqueue(all)\n"
        + ON
        + "lib.workload_enqueue(all)",
    )

    assert [activity.hits for activity in process.region().activity()] == [0, 1]


def test_entries_of_the_program_cache_are_workloads_until_they_are_destroyed(watch: Watch) -> None:
    process = watch(
        DISPATCHING
        + "mesh = grid(1, 2, 0, 1)\n"
        + "both = workload(mesh, {(0, n, 0, n): planned(mesh, n, 1000) for n in range(2)})\n"
        + "one = workload(mesh, {(0, 1, 0, 1): planned(mesh, 9, 1000)})\n"
        + "for made in (both, one, both): lib.workload_enqueue(made)\n"
        + "say('cached'); input(); lib.workload_destroy(both); say('cleared')",
    )
    process.wait_for("cached")
    region = process.region()
    assert [activity.cache_entries for activity in region.activity()] == [1, 2]

    process.go_on()
    process.wait_for("cleared")
    assert [activity.cache_entries for activity in region.activity()] == [0, 1]


def test_a_runtime_that_does_not_tell_ranges_is_said_to_count_programs_on_all_chips(
    watch: Watch, tmp_path: Path
) -> None:
    process = staying(watch, THREE, library=build_runtime(tmp_path, "NO_RANGES"))

    devices = pictured(process)

    assert set(demand(process.region()).values()) == {6000 * CORES}
    for device in devices.values():
        for kind in ("cb", "kernels"):
            assert "which chips of a mesh a program runs on" in str(device.provenance[kind].misses)
    process.go_on()
    told = [line for line in process.end().splitlines() if "program ranges: off" in line]
    assert len(told) == 1


def test_a_rejected_workload_is_in_no_sum_and_no_peak(watch: Watch) -> None:
    process = staying(watch, REJECTED)
    region = process.region()

    assert {row[Counted.CB_DEMAND].peak for row in region.counters()} == {0}
    assert Op.CB_ALLOC not in {event.op for event in events_of(region.new_events())}
    assert {(activity.dispatches, activity.cache_entries) for activity in region.activity()} == {
        (0, 0)
    }
    (failure,) = region.failures()
    assert failure.chips == (1,)
    assert [device.l1_peak for device in pictured(process).values()] == [0, 0]


def test_a_rejected_program_leaves_no_trace_when_it_is_destroyed(done: Watch) -> None:
    region = done(
        REJECTED + "lib.workload_destroy(all)\nfor one in (small, large): lib.program_destroy(one)",
    ).region()

    assert region.live() == []
    assert {counter.count for row in region.counters() for counter in row} == {0}


def test_the_summary_tells_of_no_demand_of_a_rejected_program(launcher: Launcher) -> None:
    said = launcher.summary(REJECTED + "kept = buffer(mesh, 1, 0, 4096)\n")

    assert "demand" not in said
    assert "DRAM" in said


def test_a_cached_program_that_is_laid_out_anew_has_its_new_layout_once_it_is_accepted(
    watch: Watch,
) -> None:
    process = watch(
        DISPATCHING
        + "mesh = grid(1, 1, 0); program = planned(mesh, 10, 1000)\n"
        + "all = workload(mesh, {(0, 0, 0, 0): program}); lib.workload_enqueue(all)\n"
        + "lib.program_resize(program, 2 << 20); assert lib.workload_enqueue(all) == 1\n"
        + "say('rejected'); input()\n"
        + "lib.program_resize(program, 5000); lib.workload_enqueue(all); say('accepted')",
    )
    process.wait_for("rejected")
    region = process.region()
    assert demand(region) == {0: 1000 * CORES}

    process.go_on()
    process.wait_for("accepted")
    (row,) = region.counters()
    assert (row[Counted.CB_DEMAND].reserved, row[Counted.CB_DEMAND].peak) == (5000 * CORES,) * 2
    assert row[MemoryKind.L1].count == 0
