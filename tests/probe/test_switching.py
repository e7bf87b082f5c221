"""Tracking is switched off and on: nothing new is seen meanwhile, what was seen is followed to its end."""

from __future__ import annotations

from collections.abc import Callable

from tests.probe.watched import DISPATCHING, Watched
from ttmem.events import MemoryKind
from ttmem.probe.layout import Counted

Watch = Callable[..., Watched]
OFF, ON = "probe.ttmem_probe_track(0)\n", "probe.ttmem_probe_track(1)\n"


def test_what_was_made_while_on_is_counted_out_while_off(done: Watch) -> None:
    process = done(
        "mesh = lib.mesh_open(1); made = buffer(mesh, 1, 0, 4096)\n"
        "program = lib.program_make(6, mesh, 2048, 3)\n"
        + OFF
        + "lib.buffer_free(made); lib.program_destroy(program)",
    )

    region = process.region()
    (row,) = region.counters()
    assert row[MemoryKind.DRAM].reserved == row[Counted.CB_DEMAND].reserved == 0
    assert region.live() == []


def test_a_device_that_closes_while_off_takes_everything_with_it(done: Watch) -> None:
    process = done(
        "mesh = lib.mesh_open(2); kept = buffer(mesh, 1, 0, 4096)\n" + OFF + "lib.mesh_close(mesh)",
    )

    assert [row[MemoryKind.DRAM].requested for row in process.region().counters()] == [0, 0]


def test_what_was_allocated_while_off_is_reported_as_unseen(done: Watch) -> None:
    process = done(
        "mesh = lib.mesh_open(1)\n"
        + OFF
        + "made = [buffer(mesh, n, 0, 64) for n in range(3)]\n"
        + ON,
    )

    assert process.region().losses().unseen == 3


def test_a_workload_that_was_made_while_off_is_dispatched_while_on(done: Watch) -> None:
    process = done(
        DISPATCHING
        + "mesh = lib.mesh_open(1)\n"
        + OFF
        + "work = lib.workload_make(mesh, lib.program_make(6, mesh, 2048, 1), None)\n"
        "lib.workload_enqueue(work)\n" + ON + "for _ in range(50): lib.workload_enqueue(work)",
    )

    (activity,) = process.region().activity()
    assert (activity.dispatches, activity.hits, activity.misses) == (50, 50, 0)


def test_a_phase_outlasts_one_that_was_entered_while_off(done: Watch) -> None:
    process = done(
        "import ttmem\n"
        "mesh = lib.mesh_open(1)\n"
        "with ttmem.phase('outer'):\n"
        "    probe.ttmem_probe_track(0)\n"
        "    with ttmem.phase('inner'): probe.ttmem_probe_track(1)\n"
        "    kept = buffer(mesh, 2, 0, 64)",
    )

    region = process.region()
    texts = region.new_strings()
    (made,) = region.live()
    assert texts[made.phase] == "outer"
