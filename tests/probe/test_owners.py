"""Memory is released with its owner: a mesh that is closed, a program that was replaced by `exec`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import closing

import pytest

from tests.probe.watched import PRELUDE, Launcher, Watched
from ttmem.errors import NothingToRead
from ttmem.events import MemoryKind
from ttmem.feeds import LocalFeed
from ttmem.probe.layout import Counted
from ttmem.sources.probe.ended import ended_processes

Watch = Callable[..., Watched]
MESHES = """
parent, child = lib.mesh_open(2), lib.submesh_open(1, 1)
above = [buffer(parent, n, 0, 5000) for n in range(1, 12)]
below = buffer(child, 12, 0, 5000)
"""
BUFFER = 512 * 8  # a block in each of the banks
CORES = 4  # of every circular buffer
OTHER_PROGRAM = [sys.executable, "-c", "print('another program', flush=True); input()"]
EXEC = f"""
mesh = lib.mesh_open(1); kept = [buffer(mesh, n, 0, 5000) for n in range(3)]
say('made'); input(); os.execv({sys.executable!r}, {OTHER_PROGRAM!r})
"""


def held(process: Watched) -> list[int]:
    return [row[MemoryKind.DRAM].reserved for row in process.region().counters()]


def test_a_mesh_that_closes_before_its_submeshes_takes_its_own_buffers_along(done: Watch) -> None:
    process = done(MESHES + "lib.mesh_close_alone(parent)")

    assert held(process) == [0, BUFFER]
    assert [len(process.region().gone_with_device()), len(process.region().live())] == [11, 1]


def test_the_programs_of_a_mesh_go_with_it_and_those_of_its_submeshes_stay(done: Watch) -> None:
    process = done(
        MESHES
        + "above, below = lib.program_make(6, parent, 2048, 2), lib.program_make(7, child, 1024, 1)\n"
        + "lib.mesh_close_alone(parent)"
    )

    demand = [row[Counted.CB_DEMAND].reserved for row in process.region().counters()]
    assert demand == [0, 1024 * CORES]


def test_a_submesh_that_closes_first_leaves_what_its_parent_holds(done: Watch) -> None:
    process = done(MESHES + "lib.mesh_close_alone(child)")

    assert held(process) == [11 * BUFFER, 11 * BUFFER]


def test_a_mesh_that_is_opened_again_begins_with_nothing(done: Watch) -> None:
    process = done(
        MESHES
        + "lib.mesh_close_alone(parent); lib.buffer_free(below)\n"
        + "again = lib.mesh_open(2); made = buffer(again, 13, 0, 5000)"
    )

    assert held(process) == [BUFFER, BUFFER]


def test_a_program_that_follows_by_exec_holds_nothing_of_the_one_before(watch: Watch) -> None:
    process = watch(EXEC)
    process.wait_for("made")
    feed = LocalFeed(str(process.folder))
    (before,) = feed.read().devices

    process.go_on()
    process.wait_for("another program")
    after = feed.read()

    assert before.memory.dram.held == 3 * BUFFER
    assert [device.memory.dram.held for device in after.devices] == [0]
    assert after.processes == ()
    (left,) = after.left_behind
    assert (left.pid, left.devices["1000"].dram) == (process.process.pid, 3 * BUFFER)
    os.kill(process.process.pid, 0)  # it lives


def test_who_comes_after_an_exec_finds_the_region_of_an_ended_process(watch: Watch) -> None:
    process = watch(EXEC)
    process.wait_for("made")
    process.go_on()
    process.wait_for("another program")

    with pytest.raises(NothingToRead, match="have ended"):
        LocalFeed(str(process.folder), alone=True).read()
    (ended,) = ended_processes(str(process.folder))
    with closing(process.region()) as region:
        assert not region.process_alive()
    assert (ended.news.facts.pid, ended.in_order) == (process.process.pid, False)
    assert len(ended.news.live or b"") // 64 == 3


def test_what_was_held_at_exec_is_told_though_the_next_program_opens_a_device(
    watch: Watch,
) -> None:
    follows = f"{PRELUDE}mesh = lib.mesh_open(1); buffer(mesh, 1, 0, 64); say('again'); input()"
    process = watch(
        "mesh = lib.mesh_open(1); kept = [buffer(mesh, n, 0, 64) for n in range(3)]\n"
        f"os.execv(sys.executable, [sys.executable, '-c', {follows!r}, sys.argv[1]])"
    )
    process.wait_for("again")

    (ended,) = ended_processes(str(process.folder))
    with closing(LocalFeed(str(process.folder))) as feed:
        picture = feed.read()

    assert (ended.news.facts.pid, len(ended.news.live or b"") // 64) == (process.process.pid, 3)
    assert sum(device.memory.dram.held for device in picture.devices) == 512 * 8
    assert [process.pid for process in picture.processes] == [process.process.pid]


def test_of_many_programs_that_follow_by_exec_two_regions_are_kept(watch: Watch) -> None:
    follows = (
        f"{PRELUDE}left = int(sys.argv[2]); mesh = lib.mesh_open(1); buffer(mesh, left, 0, 64)\n"
        "here = open('/proc/self/cmdline').read().split(chr(0))[:-1]\n"
        "if left: os.execv(sys.executable, [*here[:-1], str(left - 1)])\n"
        "say('last'); input()"
    )
    process = watch(
        f"os.execv(sys.executable, [sys.executable, '-c', {follows!r}, sys.argv[1], '4'])"
    )
    process.wait_for("last")

    regions = sorted(process.regions(), key=lambda region: region.path)

    assert [[entry.id for entry in region.live()] for region in regions] == [[0], [1]]


def test_the_summary_of_a_run_has_both_programs_of_a_process_that_called_exec(
    launcher: Launcher,
) -> None:
    said = launcher.summary(
        "mesh = lib.mesh_open(1); kept = buffer(mesh, 1, 0, 4000)\n"
        "if len(sys.argv) < 3:\n"
        "    line = open('/proc/self/cmdline').read().split(chr(0))[:-1]\n"
        "    os.execv(sys.executable, [*line, 'again'])"
    )

    assert said.count("NEVER FREED") == 2
