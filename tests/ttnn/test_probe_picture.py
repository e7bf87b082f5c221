"""What ttmem shows of a real session under the probe is what the runtime says of itself, to the byte."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.ttnn.bench.machine import Machine
from tests.ttnn.probed import KINDS, Machines, addresses, by_runtime, start
from ttmem.feeds import LocalFeed
from ttmem.snapshots import Device

BOARDS = ("p150", "p150x4")
DETAIL = "buffers,programs,cores"
WORK = """
def work(columns):
    kept.append(ttnn.zeros((256, columns), ttnn.bfloat16, ttnn.TILE_LAYOUT, device))
    kept.append(ttnn.zeros((64, columns), ttnn.bfloat16, ttnn.TILE_LAYOUT, device, ttnn.L1_MEMORY_CONFIG))
    kept.append(ttnn.add(kept[-1], kept[-1]))
    kept.append(ttnn.relu(kept[-1]))
kept = []
work(512)
in_thread(lambda: work(128))
in_thread(lambda: ttnn.deallocate(kept.pop(0)))
None
"""


def shown(there: Machine, *arguments: str) -> dict[str, Any]:
    """What a program gets from `ttmem`, which is told to look where this machine's regions are."""
    command = [sys.executable, "-m", "ttmem", *arguments, "--json", "--shm", str(there.folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def reserved(document: dict[str, Any]) -> list[dict[str, int]]:
    kinds = ("dram", "l1", "l1_small", "trace")
    return [
        {kind: device["memory"][kind]["reserved"] for kind in kinds}
        for device in document["devices"]
    ]


def listed(document: dict[str, Any]) -> list[Counter[tuple[str, int]]]:
    """Kinds and addresses of the buffers of each device."""
    return [
        Counter(
            (row["kind"], row["address"])
            for row in document["buffers"]
            if row["device"] == device["unique_id"]
        )
        for device in document["devices"]
    ]


@pytest.mark.parametrize("board", BOARDS)
def test_the_picture_equals_the_memory_view_and_the_buffers_of_the_runtime(
    machine: Machines, board: str
) -> None:
    there = machine(board)
    session = start(there)

    session.run(WORK)
    seen = session.views()
    document = shown(there, "ps", "--detail", DETAIL)

    assert reserved(document) == [by_runtime(seen)] * there.board.chips
    assert listed(document) == [addresses(seen)] * there.board.chips
    assert {device["logical_id"]: device["unique_id"] for device in document["devices"]} == {
        number: str(unique_id) for number, unique_id in enumerate(there.unique_ids)
    }
    assert [device["anomalies"] for device in document["devices"]] == [[]] * there.board.chips
    assert document["losses"]["dropped_events"] == 0


@pytest.mark.parametrize("board", BOARDS)
def test_a_reader_that_comes_late_shows_the_same(machine: Machines, board: str) -> None:
    there = machine(board)
    session = start(there, TTMEM_EVENTS="64")

    session.run(WORK)
    seen = session.views()
    document = shown(there, "ps", "--detail", DETAIL)

    assert reserved(document) == [by_runtime(seen)] * there.board.chips
    assert listed(document) == [addresses(seen)] * there.board.chips
    assert {row["name"] for row in document["programs"]} == {"ttnn.add", "ttnn.relu"}


@pytest.mark.parametrize("board", BOARDS)
def test_the_largest_free_blocks_are_the_runtimes_from_the_opening_on(
    machine: Machines, board: str, own_folder: Path
) -> None:
    there = machine(board)
    session = start(there, TTMEM_REGION_DIR=str(own_folder))
    work = "kept.append(ttnn.zeros((64, 64), ttnn.bfloat16, ttnn.TILE_LAYOUT, device))"
    steps = ("kept = []", f"in_thread(lambda: {work})", "in_thread(kept.clear)", work)

    # The opener's thread, which alone publishes counters, is the last to allocate.
    for step in steps:
        session.run(f"{step}\nNone")
        for region in there.regions:
            if not (own_folder / region.name).exists():
                region.rename(own_folder / region.name)
        views = session.views()["kinds"]
        devices = LocalFeed(str(own_folder)).read().devices
        assert [_largest(device) for device in devices] == [
            {
                kind: view["largest_contiguous_bytes_free_per_bank"] * view["num_banks"]
                for kind, view in views.items()
            }
        ] * there.board.chips
        assert {remark.kind for device in devices for remark in device.anomalies} == set()


def _largest(device: Device) -> dict[str, int | None]:
    uses = (device.memory.dram, device.memory.l1, device.memory.l1_small, device.memory.trace)
    return dict(zip(KINDS, (use.largest_free for use in uses), strict=True))


def test_circular_buffers_are_those_of_the_programs_and_lie_where_the_cores_page_says(
    machine: Machines,
) -> None:
    there = machine("p150")
    session = start(there)

    session.run(WORK)
    document = shown(there, "ps", "--detail", DETAIL)

    (device,) = document["devices"]
    assert (
        sum(row["size"] for row in document["circular_buffers"]) == device["memory"]["cb"]["demand"]
    )
    classes = document["cores"][device["unique_id"]]
    covered = sum(len(group["cores"]) * group["cached"] for group in classes)
    assert covered == device["memory"]["cb"]["cached"] > 0
    assert all(row["name"] for row in document["kernels"])
    assert {row["site"].split(" ")[0] for row in document["programs"]} == {
        "<snippet>:5",
        "<snippet>:6",
    }


@pytest.mark.parametrize("by", ["site", "op", "phase", "pid"])
def test_groups_add_up_to_the_device(machine: Machines, by: str) -> None:
    there = machine("p150")
    session = start(there)

    session.run(WORK)
    grouped = shown(there, "ps", "--by", by)
    (device,) = shown(there, "ps")["devices"]

    for key, total in (("dram", device["memory"]["dram"]["held"]), ("l1_used", device["l1_used"])):
        assert sum(group[key] for group in grouped["groups"]) == grouped["total"][key] == total


@pytest.mark.parametrize("killed", [True, False])
def test_after_the_end_nothing_is_held_and_dump_has_what_was_never_freed(
    machine: Machines, killed: bool
) -> None:
    there = machine("p150")
    session = start(there)
    session.run(WORK)
    seen = session.views()

    session.kill() if killed else session.close()
    document = shown(there, "dump")

    assert document["devices"] == []
    (device,) = document["never_freed"]
    held = {group["kind"].lower(): group["held"] for group in device["memory"]}
    assert held == {kind: amount for kind, amount in by_runtime(seen).items() if amount}
    largest = max(device["memory"], key=lambda group: int(group["held"]))["largest"][0]
    assert largest["name"].startswith("ttnn.")
    assert largest["site"].startswith("<snippet>:")


def test_a_server_that_follows_the_session_shows_the_same(
    machine: Machines, serving: Callable[[Machine], str]
) -> None:
    there = machine("p150x4")
    socket = serving(there)
    session = start(there)
    session.run(WORK)
    seen = session.views()

    command = [
        sys.executable,
        "-m",
        "ttmem",
        "ps",
        "--json",
        "--detail",
        DETAIL,
        "--socket",
        socket,
    ]
    deadline = time.monotonic() + 60
    while True:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        document = json.loads(done.stdout)
        if reserved(document) == [by_runtime(seen)] * 4 or time.monotonic() > deadline:
            break

    assert reserved(document) == [by_runtime(seen)] * 4
    assert listed(document) == [addresses(seen)] * 4


@pytest.fixture
def serving() -> Iterator[Callable[[Machine], str]]:
    """Starts a server for the regions of a machine; it ends with the test."""
    running: list[subprocess.Popen[bytes]] = []

    def begin(there: Machine) -> str:
        socket = there.folder / "socket"
        command = [sys.executable, "-m", "ttmem", "serve", "--quiet", "--socket", str(socket)]
        running.append(subprocess.Popen([*command, "--shm", str(there.folder)]))
        deadline = time.monotonic() + 60
        while not socket.exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        return str(socket)

    yield begin
    for server in running:
        server.kill()
        server.wait()
