"""The server follows the regions of watched processes, beside its sockets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.patience import wait_until
from tests.probe.conftest import runtime as runtime
from tests.probe.conftest import watch as watch
from tests.probe.watched import Watched
from tests.server.harness import OldClient, RunningServer
from ttmem.probe.layout import LIVE_AT, SECTION, SECTIONS_AT, Section
from ttmem.snapshots import Snapshot

Watch = Callable[..., Watched]
BLOCK = 512 * 8
SOCKET_TOO = """
from ttmem.client import Buffer, GraphTracker, MemoryKind
GraphTracker.instance().track_allocate(Buffer(id=1, size=7000, kind=MemoryKind.DRAM, device=0))
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    running = RunningServer(tmp_path, "--shm", str(tmp_path)).wait_ready()
    yield running
    running.kill()


def dram(picture: Snapshot) -> list[int]:
    return [device.memory.dram.held for device in picture.devices]


def test_a_watched_process_is_in_the_snapshot_the_lists_and_the_history(
    server: RunningServer, watch: Watch
) -> None:
    watch("mesh = lib.mesh_open(2); buffer(mesh, 7, 0, 4000); say('made'); input()")

    server.sees(lambda picture: dram(picture) == [BLOCK] * 2)
    wait_until(lambda: server.picture("history").history or {})

    seen = server.picture("buffers", "history")
    assert [row.id for row in seen.buffers or ()] == [7, 7]
    assert set(seen.history or ()) == {"1000", "1001"}


def test_two_watched_processes_and_their_sums_are_exact_while_they_work(
    server: RunningServer, watch: Watch
) -> None:
    script = "mesh = lib.mesh_open(1); buffer(mesh, 1, 0, 4000); lib.churn(mesh, 100, {})"
    for pairs in (50_000, 20_000):
        watch(f"{script.format(pairs)}; say('made'); input()").wait_for("made")

    picture = server.sees(
        lambda picture: len(picture.processes) == 2 and dram(picture) == [2 * BLOCK]
    )

    assert [process.devices["1000"].dram for process in picture.processes] == [BLOCK] * 2
    assert picture.devices[0].anomalies == ()


def test_a_killed_process_is_released_and_the_log_says_so(
    server: RunningServer, watch: Watch
) -> None:
    process = watch("mesh = lib.mesh_open(1); buffer(mesh, 7, 0, 4000); say('made'); input()")
    server.sees(lambda picture: dram(picture) == [BLOCK])

    process.close()

    picture = server.sees(lambda picture: dram(picture) == [0])
    assert [left.pid for left in picture.left_behind] == [process.process.pid]
    server.logs("ended; released")


def test_a_process_that_is_watched_and_reports_is_counted_once(
    server: RunningServer, watch: Watch
) -> None:
    process = watch(
        f"mesh = lib.mesh_open(1); buffer(mesh, 7, 0, 4000)\n{SOCKET_TOO}\nsay('made'); input()",
        TT_ALLOC_TRACKING_ENABLED="1",
        TTMEM_SOCKET=server.path,
    )
    process.wait_for("made")

    picture = server.sees(
        lambda picture: any(process.sources == ("probe", "socket") for process in picture.processes)
    )

    assert [process.pid for process in picture.processes] == [process.process.pid]
    assert {d.unique_id: d.memory.dram.held for d in picture.devices}["1000"] == BLOCK
    assert sum(dram(picture)) == BLOCK


def overwrite(process: Watched, section: Section) -> None:
    """With the largest numbers there are."""
    with open(process.region().path, "r+b") as region:
        region.seek(SECTIONS_AT + section * SECTION.size)
        offset, count, stride = SECTION.unpack(region.read(SECTION.size))
        region.seek(offset)
        region.write(b"\xff" * min(count * stride, 1 << 20))


def test_a_region_that_cannot_be_accounted_is_named_and_left_out(
    server: RunningServer, watch: Watch
) -> None:
    sound = watch("mesh = lib.mesh_open(1); buffer(mesh, 7, 0, 4000); say('made'); input()")
    hostile = watch("mesh = lib.mesh_open(1); buffer(mesh, 7, 0, 4000); say('made'); input()")
    server.sees(lambda picture: dram(picture) == [2 * BLOCK])

    overwrite(hostile, Section.COUNTERS)
    with open(
        hostile.region().path, "r+b"
    ) as region:  # there are buffers beyond the table, it says
        region.seek(LIVE_AT)
        region.write(b"\x01" * 24)

    picture = server.sees(
        lambda picture: any(anomaly.kind == "fault" for anomaly in picture.remarks)
    )
    assert any(hostile.region().path in anomaly.text for anomaly in picture.remarks)
    server.sees(lambda picture: dram(picture) == [BLOCK])
    assert sound.process.poll() is None


@pytest.mark.parametrize("section", list(Section))
def test_whatever_is_in_a_region_others_and_the_loop_go_on(
    server: RunningServer, watch: Watch, section: Section
) -> None:
    hostile = watch("mesh = lib.mesh_open(1); buffer(mesh, 7, 0, 4000); say('made'); input()")
    hostile.wait_for("made")
    server.sees(lambda picture: len(picture.processes) == 1)
    overwrite(hostile, section)
    watch("mesh = lib.mesh_open(2); buffer(mesh, 9, 1, 64); say('made'); input()").wait_for("made")

    server.sees(lambda picture: any(device.memory.l1.held for device in picture.devices))
    with OldClient(server.path) as client:
        client.alloc(4096, 1, device=5)
        assert client.ask(device=5)["l1_allocated"] == 4096
    assert server.alive
