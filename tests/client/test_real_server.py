"""The client's live set against the real ledger: what is resent equals what was reported."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.client.conftest import MakeClient
from tests.patience import wait_until
from ttmem.client import AllocationClient, BinaryStatus, KernelType, MemoryKind
from ttmem.client.query import ServerConnection
from ttmem.errors import TtmemError

CORES = [None, ((0, 0, 3, 3),), ((0, 0, 0, 0), (2, 2, 3, 2)), 5]
MARKER = 2  # the device whose cache entries tell that everything before has arrived


@pytest.fixture
def server(path: str) -> Iterator[None]:
    command = [sys.executable, "-m", "ttmem", "serve", "--socket", path]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        try:
            wait_until(lambda: answers(path) or process.poll() is not None)
            assert process.poll() is None
            yield
        finally:
            process.kill()


def answers(path: str) -> bool:
    try:
        ServerConnection(path).close()
    except TtmemError:
        return False
    return True


def memory_and_kernels(path: str) -> dict[int, Any]:
    """What the ledger knows, but for peaks, and for what only the next dispatch can tell."""
    with ServerConnection(path) as connection:
        document, _ = connection.query("snapshot", detail=[])
    picture = {}
    for device in document["snapshot"]["devices"]:
        memory = {
            (kind, name): value
            for kind, values in device["memory"].items()
            for name, value in values.items()
            if "peak" not in name and name != "resident"
        }
        picture[device["logical_id"]] = (memory, device["kernels"])
    return picture


def settled(client: AllocationClient, path: str, turn: int) -> dict[int, Any]:
    """The picture once everything before the marker has arrived, without the marker."""
    client.report_cache_entries(MARKER, turn)
    wait_until(
        lambda: memory_and_kernels(path).get(MARKER, [0, {}])[1].get("cache_entries") == turn
    )
    return {
        number: device for number, device in memory_and_kernels(path).items() if number != MARKER
    }


def do_something(client: AllocationClient, chance: random.Random) -> None:
    device, number, program = chance.randint(0, 1), chance.randint(0, 3), chance.randint(0, 3)
    size, cores, yes = chance.choice([64, 128]), chance.choice(CORES), chance.random() < 0.5
    kind = chance.choice([MemoryKind.DRAM, MemoryKind.L1])
    address = 4096 * (number + 1)
    given = program if yes else 0
    kernel_type, status = chance.choice([*KernelType]), chance.choice([*BinaryStatus])
    actions: list[Callable[[], None]] = [
        lambda: client.report_allocation(device, number, size, kind, reserved=256 * yes),
        lambda: client.report_deallocation(device, number, kind),
        lambda: client.report_cb_allocation(device, address, size, cores, yes, program),
        lambda: client.report_cb_allocation(device, address, size, cores, False, program, yes),
        lambda: client.report_cb_deallocation(device, address, size, cores, given),
        lambda: client.report_cb_deallocation(device, address, size, None, given),
        lambda: client.report_kernel_load(device, number, size, kernel_type, 1 + yes, program),
        lambda: client.report_kernel_unload(device, number),
        lambda: client.report_program_dispatch(device, program, yes),
        lambda: client.report_program_destroy(device, program),
        lambda: client.report_binary_status(device, program, status),
        lambda: client.report_ring(device, number, 1, 2, 100, 3),
        lambda: client.report_cache_entries(device, number),
    ]
    chance.choice(actions)()


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize("seed", range(8))
def test_a_reconnection_changes_nothing_in_the_ledger(
    make_client: MakeClient, path: str, seed: int
) -> None:
    client, chance = make_client(), random.Random(seed)
    for _ in range(200):
        do_something(client, chance)
    before = settled(client, path, 1)

    assert client._sender is not None
    assert client._sender._connection is not None
    client._sender._connection.abort()
    wait_until(lambda: client.stats().resyncs == 2)

    assert settled(client, path, 2) == before
