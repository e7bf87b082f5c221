"""The server reads the counters of stock ttnn, and merges them with its events into one snapshot."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.other_user import sleepers
from tests.patience import PATIENCE_S, wait_until
from tests.server.harness import OldClient, RunningServer, child
from tests.sources.region_writer import Slot, Written
from ttmem.snapshots import Snapshot

CHIP, OTHER = 4476187513037, 4476187513038
DRAM, L1 = 0, 1


@pytest.fixture
def server(tmp_path: Path, shm: Path) -> Iterator[RunningServer]:
    running = RunningServer(tmp_path, "--shm", str(shm)).wait_ready()
    yield running
    running.kill()


def dram(picture: Snapshot) -> dict[str, int]:
    return {device.unique_id: device.memory.dram.held for device in picture.devices}


def test_stock_processes_are_in_the_snapshot_and_in_the_history(
    server: RunningServer, shm: Path
) -> None:
    with sleepers(2) as (one, two):
        slots = [Slot(one.pid, (5000, 0, 0, 0, 64)), Slot(two.pid, (70, 0, 0, 0, 0))]
        Written(CHIP, slots=slots).write(shm)
        picture = server.sees(lambda p: dram(p) == {str(CHIP): 5070})
        wait_until(lambda: server.picture("history").history or {})

    assert {p.pid for p in picture.processes} == {one.pid, two.pid}
    assert picture.host["shared_memory"] == str(shm)
    assert (server.picture("history").history or {})[str(CHIP)].l1_used[0] == 64


def test_after_kill_9_of_one_of_three_the_other_two_are_exact(
    server: RunningServer, shm: Path
) -> None:
    with sleepers(3) as owners:
        slots = [Slot(o.pid, (1000 * (n + 1), 0, 0, 0, 0)) for n, o in enumerate(owners)]
        Written(CHIP, slots=slots).write(shm)
        server.sees(lambda p: dram(p) == {str(CHIP): 6000})

        owners[1].send_signal(signal.SIGKILL)
        owners[1].wait()
        picture = server.sees(lambda p: dram(p) == {str(CHIP): 4000})

    assert [(left.pid, left.ghost) for left in picture.left_behind] == [(owners[1].pid, True)]
    assert {p.pid for p in picture.processes} == {owners[0].pid, owners[2].pid}


def test_a_process_that_does_both_is_one_and_counted_once(server: RunningServer, shm: Path) -> None:
    Written(CHIP, slots=[Slot(os.getpid(), (4000, 0, 0, 0, 0))]).write(shm)
    with OldClient(server.path) as client:
        client.alloc(4096, id=1, kind=DRAM)
        picture = server.sees(lambda p: any(process.cross_check for process in p.processes))
        client.alloc(100, id=2, kind=L1)
        later = server.sees(lambda p: p.devices[0].l1_used == 100)

    (process,), (device,) = picture.processes, picture.devices
    assert (device.unique_id, device.logical_id) == (str(CHIP), 0)
    assert device.memory.dram.held == 4096
    assert process.cross_check[str(CHIP)].difference.dram == 4000 - 4096
    assert process.sources == ("socket", "shared memory v3")
    assert len(later.devices) == 1


def test_two_clients_that_call_their_chips_0_have_each_its_own(
    server: RunningServer, shm: Path
) -> None:
    code = "client = OldClient(sys.argv[1]); client.alloc(int(sys.argv[2]), id=1, kind=0)"
    with (
        child(code, server.path, "1000") as one,
        child(code, server.path, "70") as two,
    ):
        for number, owner in ((CHIP, one), (OTHER, two)):
            Written(number, slots=[Slot(owner.pid, (1, 0, 0, 0, 0))]).write(shm)
        picture = server.sees(lambda p: dram(p) == {str(CHIP): 1000, str(OTHER): 70})

    assert {d.logical_id for d in picture.devices} == {0}


def test_a_killed_client_with_a_slot_is_gone_at_once_and_left_behind_once(
    server: RunningServer, shm: Path
) -> None:
    code = "client = OldClient(sys.argv[1]); client.alloc(1000, id=1, kind=0)"
    with child(code, server.path) as owner:
        Written(CHIP, slots=[Slot(owner.pid, (900, 0, 0, 0, 0))]).write(shm)
        server.sees(lambda p: dram(p) == {str(CHIP): 1000})
        owner.kill()
        owner.wait()
        picture = server.sees(lambda p: dram(p) == {str(CHIP): 0} and not p.processes)

    assert [(left.pid, left.devices[str(CHIP)].dram) for left in picture.left_behind] == [
        (owner.pid, 1000)
    ]


def test_garbage_beside_a_sound_region_is_a_remark_and_the_server_goes_on(
    server: RunningServer, shm: Path
) -> None:
    Written(CHIP, slots=[Slot(os.getpid(), (5000, 0, 0, 0, 0))]).write(shm)
    (shm / f"tt_device_{OTHER}_memory").write_bytes(b"\xff" * 8576)
    os.mkfifo(shm / "tt_device_7_memory")
    picture = server.sees(lambda p: len(p.remarks) >= 2 and bool(p.devices))

    assert dram(picture) == {str(CHIP): 5000}
    assert server.stop() == 0


def test_no_shm_reads_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TTMEM_SHM", str(tmp_path))
    Written(CHIP, slots=[Slot(os.getpid(), (5000, 0, 0, 0, 0))]).write(tmp_path)
    server = RunningServer(tmp_path, "--no-shm").wait_ready()
    try:
        with OldClient(server.path) as client:
            client.alloc(4096, id=1, kind=DRAM)
            picture = server.sees(lambda p: bool(p.devices))
            assert (picture.host["shared_memory"], dram(picture)[picture.devices[0].unique_id]) == (
                None,
                4096,
            )
            assert str(CHIP) not in dram(picture)
    finally:
        server.kill()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--shm", "/nowhere"), "is not a directory"),
        (("--shm", "/tmp", "--no-shm"), "--shm and --no-shm cannot be combined"),
    ],
)
def test_impossible_options_are_refused(
    tmp_path: Path, options: tuple[str, ...], said: str
) -> None:
    server = RunningServer(tmp_path, *options)

    assert server.process.wait(PATIENCE_S) == 2
    assert said in server.log
