"""Tables that are full: everything else works, and what did not fit is reported again once there is space."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.patience import wait_until
from tests.server.conftest import StartServer
from tests.server.harness import OldClient, RunningServer, child
from ttmem.client import AllocationClient, DeviceDeclaration
from ttmem.ledger.register import MAX_DEVICES
from ttmem.snapshots import Snapshot

# A process that declares and uses so many devices.
USES_DEVICES = """
from ttmem.client import AllocationClient, DeviceDeclaration
client = AllocationClient(sys.argv[1])
for number in range(int(sys.argv[2])):
    client.declare_device(DeviceDeclaration(number, f"other-{number}"))
    client.report_allocation(number, 1, 100)
assert client.flush(20)
"""


@pytest.fixture
def client(server: RunningServer) -> Iterator[AllocationClient]:
    client = AllocationClient(server.path)
    yield client
    client.close(0)


def held(picture: Snapshot) -> dict[str, int]:
    """DRAM by device, of those on which anything is."""
    return {d.unique_id: d.memory.dram.held for d in picture.devices if d.memory.dram.held}


def mine(picture: Snapshot) -> dict[str, int]:
    mine = [process for process in picture.processes if process.pid == os.getpid()]
    return {
        unique_id: held.dram
        for process in mine
        for unique_id, held in process.devices.items()
        if held.dram
    }


def test_a_declaration_that_cannot_be_taken_costs_a_client_nothing_else(
    server: RunningServer, client: AllocationClient, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "ttmem.client"):
        client.declare_device(DeviceDeclaration(5000, "impossible"))
        client.declare_device(DeviceDeclaration(1, "possible"))
        client.report_allocation(1, 1, 100)
        server.sees(lambda p: held(p) == {"possible": 100})
        client.report_allocation(1, 2, 23)

        server.sees(lambda p: held(p) == {"possible": 123})
        wait_until(lambda: "logical id 5000 is above 1023" in caplog.text)
    assert caplog.text.count("logical id 5000 is above 1023") == 1
    server.logs("declaration declined: logical id 5000 is above 1023")


def test_a_device_whose_declaration_makes_no_sense_is_known_by_its_number(
    server: RunningServer, client: AllocationClient
) -> None:
    client.declare_device(DeviceDeclaration(3, "chip", l1_banks=-1))
    client.report_allocation(3, 1, 100)

    server.sees(lambda p: held(p) == {f"{os.uname().nodename}:3": 100})


def test_a_device_that_did_not_fit_is_listed_once_there_is_space(
    server: RunningServer, client: AllocationClient
) -> None:
    with child(USES_DEVICES, server.path, str(MAX_DEVICES - 1)) as other:
        server.sees(lambda p: len(held(p)) == MAX_DEVICES - 1)
        client.declare_device(DeviceDeclaration(0, "mine-0"))
        client.declare_device(DeviceDeclaration(1, "mine-1"))
        client.report_allocation(0, 1, 100)
        client.report_allocation(1, 1, 1000)
        server.sees(lambda p: mine(p) == {"mine-0": 100})
        server.logs(f"the table of devices is full: all {MAX_DEVICES} are in use")
        server.logs("event on device 1 rejected: the table of devices is full")
        client.report_allocation(0, 2, 11)
        server.sees(lambda p: mine(p) == {"mine-0": 111})

        other.kill()
        server.sees(lambda p: held(p) == {"mine-0": 111, "mine-1": 1000})


def test_devices_that_no_process_has_open_are_dropped_to_make_space(server: RunningServer) -> None:
    with closing(AllocationClient(server.path)) as keeper:
        keeper.declare_device(DeviceDeclaration(0, "kept"))
        keeper.report_allocation(0, 1, 100)
        for start in range(0, 3 * MAX_DEVICES, 200):
            with closing(AllocationClient(server.path)) as client:
                for number in range(200):
                    client.declare_device(DeviceDeclaration(number, f"chip-{start + number}"))
                    client.report_allocation(number, 1, 10)
                    client.report_deallocation(number, 1)
                server.sees(
                    lambda p, last=start + 199: any(  # type: ignore[misc]
                        d.unique_id == f"chip-{last}" for d in p.devices
                    )
                )

        picture = server.sees(lambda p: held(p) == {"kept": 100})
    assert len(picture.devices) <= MAX_DEVICES
    assert "the table of devices is full" not in server.log


def test_a_device_in_the_place_of_another_starts_without_its_peaks(server: RunningServer) -> None:
    code = USES_DEVICES.replace("100", "77_000") + "client.close()"
    with child(code, server.path, str(MAX_DEVICES)) as other:
        server.sees(lambda p: len(held(p)) == MAX_DEVICES)
        other.kill()
        server.sees(lambda p: not held(p))
    with closing(AllocationClient(server.path)) as client:
        client.declare_device(DeviceDeclaration(0, "new"))
        client.report_allocation(0, 1, 5)
        picture = server.sees(lambda p: held(p) == {"new": 5})

    (device,) = [device for device in picture.devices if device.unique_id == "new"]
    assert device.memory.dram.peak == 5


def test_a_client_whose_reports_did_not_fit_is_asked_to_resend_them(
    start: StartServer,
) -> None:
    server = start("--max-live", "100")
    with OldClient(server.path) as old, closing(AllocationClient(server.path)) as client:
        for number in range(90):
            old.alloc(1, number, 0)
        old.ask()
        for number in range(50):
            client.report_allocation(0, number, 1000)
        server.sees(lambda p: held(p) == {f"{os.uname().nodename}:0": 10_090})
        (full,) = server.device().anomalies
        assert full.kind == "table_full"
        assert "did not fit into the table of live entries" in full.text
        for number in range(90):
            old.send(2, id=number)

        picture = server.sees(lambda p: held(p) == {f"{os.uname().nodename}:0": 50_000})
        assert picture.devices[0].anomalies == ()
        assert client.stats().resyncs >= 2


def test_a_device_that_turns_out_to_be_another_chip_takes_all_along(
    server: RunningServer, client: AllocationClient
) -> None:
    client.report_allocation(0, 1, 100)
    server.sees(lambda p: held(p) == {f"{os.uname().nodename}:0": 100})
    client.declare_device(DeviceDeclaration(0, "chip"))
    client.report_allocation(0, 2, 11)

    server.sees(lambda p: held(p) == {"chip": 111})
