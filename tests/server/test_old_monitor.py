"""The original monitor: it asks for devices and totals once, when it starts, and never again."""

from __future__ import annotations

import socket
import struct
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S
from tests.server.conftest import StartServer
from tests.server.harness import OldClient, RunningServer

GIB, MIB = 1 << 30, 1 << 20
FALLBACK = (12 * GIB, 75 * MIB)  # what it takes for a device that is not available
QUERY, DEVICE_INFO_QUERY = 3, 6
# Where the answers of the three record sizes with device fields have: totals, architecture, is_available, num_devices.
OFFSETS = {112: (72, 88, 104, 108), 128: (88, 104, 120, 124), 144: (88, 104, 120, 124)}
CLUSTERS = Path(__file__).parent.parent / "data" / "cluster_descriptors"

every_size = pytest.mark.parametrize("size", sorted(OFFSETS))


class OldMonitor:
    """Sends the bytes that the original sent, and draws the same conclusions from the answers."""

    def __init__(self, path: str, size: int) -> None:
        self._size = size
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(PATIENCE_S)
        self._socket.connect(path)
        self._totals, self._arch, self._available, self._count = OFFSETS[size]
        self.devices = self._word(self._ask(DEVICE_INFO_QUERY, -1), self._count)
        self._info = [self._ask(DEVICE_INFO_QUERY, number) for number in range(self.devices)]

    def __enter__(self) -> OldMonitor:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def _ask(self, kind: int, device: int) -> bytes:
        question = bytearray(self._size)
        question[0] = kind
        struct.pack_into("=i", question, 4, device)
        self._socket.sendall(question)
        answer = self._socket.recv(self._size, socket.MSG_WAITALL)
        assert (len(answer), answer[0]) == (self._size, kind + 1)
        assert struct.unpack_from("=i", answer, 4) == (device,)
        return answer

    @staticmethod
    def _word(answer: bytes, offset: int) -> int:
        return int.from_bytes(answer[offset : offset + 4], "little")

    def arch(self, device: int) -> int:
        return self._word(self._info[device], self._arch)

    def shows(self, device: int) -> tuple[tuple[int, int], tuple[int, int]]:
        """(used, total) of DRAM and of L1, as on its screen."""
        used = struct.unpack_from("=QQ", self._ask(QUERY, device), 40)
        totals = FALLBACK
        if device < self.devices and self._word(self._info[device], self._available):
            totals = struct.unpack_from("=QQ", self._info[device], self._totals)
        return (used[0], totals[0]), (used[1], totals[1])


@every_size
def test_with_a_board_it_shows_the_real_totals_though_the_application_comes_later(
    start: StartServer, size: int
) -> None:
    server = start("--board", "n300", "--no-shm")
    with OldMonitor(server.path, size) as monitor, OldClient(server.path) as application:
        application.alloc(25 * MIB, 0x1000, kind=0)
        application.alloc(2 * MIB, 0x2000, kind=1, device=1)
        application.ask()

        assert monitor.devices == 2
        assert [monitor.arch(0), monitor.arch(1)] == [2, 2]
        l1 = 64 * 1_499_136
        dram = monitor.shows(0)[0][1]
        assert monitor.shows(0) == ((25 * MIB, dram), (0, l1))
        assert monitor.shows(1) == ((0, dram), (2 * MIB, l1))
        assert 11.5 * GIB < dram < 12 * GIB  # what of 12 GiB can be allocated
        capacity = server.device(0).memory.dram.capacity
        assert dram == capacity


@every_size
def test_with_a_cluster_it_shows_every_chip_from_the_start(start: StartServer, size: int) -> None:
    server = start("--cluster", str(CLUSTERS / "p150x4.yaml"), "--no-shm")
    with OldMonitor(server.path, size) as monitor, OldClient(server.path) as application:
        application.alloc(25 * MIB, 0x1000, kind=0, device=3)
        application.ask()

        assert monitor.devices == 4
        for device in server.picture().devices:
            number = device.logical_id
            assert number is not None
            dram, l1 = monitor.shows(number)
            assert dram == (25 * MIB if number == 3 else 0, device.memory.dram.capacity)
            assert l1 == (0, device.l1_total)


@every_size
@pytest.mark.parametrize("first", ["monitor", "application"])
def test_with_neither_it_shows_its_own_fallback_and_never_a_total_of_zero(
    start: StartServer, size: int, first: str
) -> None:
    server = start("--no-shm")
    with OldClient(server.path) as application:
        if first == "application":
            _use(application)
        with OldMonitor(server.path, size) as monitor:
            _use(application)

            assert monitor.devices == (1 if first == "application" else 0)
            assert monitor.shows(0) == ((25 * MIB, 12 * GIB), (2 * MIB, 75 * MIB))


def _use(application: OldClient) -> None:
    """As often as one likes: the ids are taken with the first call."""
    application.send(2, id=0x1000)
    application.send(2, id=0x2000)
    application.alloc(25 * MIB, 0x1000, kind=0)
    application.alloc(2 * MIB, 0x2000, kind=1)
    application.ask()


@every_size
def test_with_only_one_total_known_it_shows_its_own_fallback(start: StartServer, size: int) -> None:
    server = start("--l1-capacity", "85MiB", "--no-shm")
    with OldMonitor(server.path, size) as monitor, OldClient(server.path) as application:
        _use(application)

        assert monitor.shows(0) == ((25 * MIB, 12 * GIB), (2 * MIB, 75 * MIB))
    with OldMonitor(server.path, size) as later:
        assert later.shows(0) == ((25 * MIB, 12 * GIB), (2 * MIB, 75 * MIB))


def test_a_board_without_reports_is_in_no_snapshot(start: StartServer) -> None:
    server: RunningServer = start("--board", "n300", "--no-shm")
    with OldMonitor(server.path, 112) as monitor:
        assert monitor.devices == 2
    assert server.picture().devices == ()
