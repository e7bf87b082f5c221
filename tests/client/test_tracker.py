"""`GraphTracker`: its switch, its devices, and the line for each kernel."""

from __future__ import annotations

import os
import re

import pytest

from tests.client import scripts
from tests.client.conftest import Settle
from tests.client.peer import Peer
from ttmem.client import (
    AllocationClient,
    Buffer,
    Device,
    GraphTracker,
    KernelType,
    MemoryKind,
    MeshDevice,
)


class Chip:
    """As of ttnn: the id is a method."""

    def __init__(self, number: int) -> None:
        self._number = number

    def id(self) -> int:
        return self._number


class Slotted:
    """An object that can be neither hashed nor weakly referenced; the id is an attribute."""

    __slots__ = ("id",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, number: int) -> None:
        self.id = number


class Mesh:
    """As of ttnn."""

    def __init__(self, *numbers: int) -> None:
        self._numbers = numbers
        self.asked = 0

    def get_device_ids(self) -> list[int]:
        self.asked += 1
        return [*self._numbers, *self._numbers]


class MeshOfChips:
    def get_devices(self) -> list[Chip]:
        return [Chip(4), Chip(5), Chip(4)]


def test_it_is_one_for_the_process_and_off_unless_asked_for() -> None:
    tracker = GraphTracker.instance()

    assert tracker is GraphTracker.instance()
    assert tracker.enabled is (os.environ.get("TT_ALLOC_TRACKING_ENABLED") == "1")


def test_when_off_it_reports_nothing_and_starts_no_thread(path: str, peer: Peer) -> None:
    program = """
buffer = Buffer(1, 64, MemoryKind.L1, 0)
tracker.track_allocate(buffer)
tracker.track_deallocate(buffer)
tracker.track_allocate_cb(None, 1, 64, False, 0)
tracker.track_deallocate_cb(0, 1, 64)
tracker.track_kernel_load(64, 1, 0)
tracker.track_kernel_unload(1, 0)
tracker.track_program_dispatch(1, 0)
tracker.track_program_destroy(1, 0)
tracker.track_binary_status(1, 0, BinaryStatus.COMMITTED)
tracker.track_ring(0, 1, 2, 3)
tracker.track_cache_entries(0, 1)
tracker.declare_device(DeviceDeclaration(0))
say((tracker.enabled, threading.active_count()))
"""
    out, error = scripts.run(program, path, TT_ALLOC_TRACKING_ENABLED="0")

    assert (out, error) == ("(False, 1)\n", "")
    assert peer.sessions == []


def test_the_environment_switches_it_on(path: str, peer: Peer) -> None:
    out, _ = scripts.run("tracker.track_kernel_load(64, 1, 0)\nflush()\nsay('sent')", path)

    assert out == "sent\n"
    assert len(peer.sessions) == 1


@pytest.mark.parametrize(
    ("device", "numbers"),
    [
        (3, [3]),
        (Device(3), [3]),
        (MeshDevice([Device(1), 2]), [1, 2]),
        (Chip(7), [7]),
        (Slotted(7), [7]),
        (Mesh(1, 0), [0, 1]),
        (MeshOfChips(), [4, 5]),
        (MeshDevice([Chip(1), Slotted(2)]), [1, 2]),
    ],
)
def test_devices_of_all_sorts_mean_their_chips(
    tracker: GraphTracker, peer: Peer, settle: Settle, device: Device, numbers: list[int]
) -> None:
    buffer = Buffer(1, 64, MemoryKind.L1, device)
    tracker.track_allocate(buffer)
    tracker.track_allocate(buffer)
    settle()

    picture = peer.picture() or {}
    assert picture["buffers"] == [[number, 1, 1, 64, 2] for number in numbers]


def test_a_foreign_mesh_is_asked_once_and_not_kept_alive(client: AllocationClient) -> None:
    mesh = Mesh(0, 1)
    for number in range(10):
        client.report_allocation(mesh, number, 64)

    alive = client._outbox.targets.find(mesh)
    asked = mesh.asked
    del mesh

    assert alive == (0 << 32, 1 << 32)
    assert asked <= 2
    assert [ref() for ref, _ in client._outbox.targets._foreign.values()] == [None]


def load_kernels(tracker: GraphTracker) -> None:
    tracker.track_kernel_load(57_344, 0xAB12, MeshDevice([0, 1]), KernelType.FABRIC, 16)
    tracker.track_kernel_load(512, 1, 0, cores=[(0, 0, 3, 3)])


def test_the_line_of_the_original_system_is_printed_for_each_kernel_on_request(
    tracker: GraphTracker, capsys: pytest.CaptureFixture[str]
) -> None:
    tracker.kernel_backtrace = True

    load_kernels(tracker)

    lines = capsys.readouterr().err.splitlines()
    here = re.escape(__file__)
    assert [line for line in lines if not line.startswith("  [")] == [
        "🔍 KERNEL_LOAD Backtrace (Device 0, Type: Fabric, Binary Size: 56 KB, Cores: 16, "
        "Total L1: 896 KB, ID: 0xab12)",
        "🔍 KERNEL_LOAD Backtrace (Device 1, Type: Fabric, Binary Size: 56 KB, Cores: 16, "
        "Total L1: 896 KB, ID: 0xab12)",
        "🔍 KERNEL_LOAD Backtrace (Device 0, Type: Application, Binary Size: 0.5 KB, Cores: 16, "
        "Total L1: 8 KB, ID: 0x1)",
    ]
    assert len(lines) == 3 * 6
    assert re.match(rf"  \[0\] load_kernels \({here}:\d+\)", lines[1])
    assert re.match(rf"  \[1\] test_the_line_of_the_original_system\w+ \({here}:\d+\)", lines[2])


def test_the_environment_asks_for_the_line(path: str) -> None:
    program = "tracker.track_kernel_load(47104, 255, 0, KernelType.DISPATCH, 2)"

    _, error = scripts.run(program, path, TTMEM_KERNEL_BACKTRACE="1")

    assert "Type: Dispatch, Binary Size: 46 KB, Cores: 2, Total L1: 92 KB, ID: 0xff)" in error
