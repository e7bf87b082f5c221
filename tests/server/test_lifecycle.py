"""Starting, stopping, and the words of the log."""

from __future__ import annotations

import grp
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S, wait_until
from tests.server.conftest import StartServer
from tests.server.harness import OldClient, RunningServer, child
from ttmem.wire.historical import Message


def test_the_socket_is_for_its_owner_only(server: RunningServer) -> None:
    assert stat.S_IMODE(os.stat(server.path).st_mode) == 0o600


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be in any group")
def test_a_group_may_share_the_socket(start: StartServer) -> None:
    server = start("--group", "daemon")

    status = os.stat(server.path)
    assert stat.S_IMODE(status.st_mode) == 0o660
    assert status.st_gid == grp.getgrnam("daemon").gr_gid


def test_an_unknown_group_is_refused_with_a_sentence(start: StartServer) -> None:
    server = start("--group", "no such group")

    assert server.process.wait() == 2
    assert "there is no group 'no such group'" in server.log
    assert not os.path.exists(server.path)


def test_a_second_server_refuses_to_start_and_the_first_goes_on(start: StartServer) -> None:
    first = start()
    second = start(name="second")

    assert second.process.wait() == 5
    assert f"another ttmem server (pid {first.process.pid}) serves" in second.log
    with OldClient(first.path) as client:
        assert client.ask()["l1_allocated"] == 0


def test_a_socket_left_by_a_killed_server_is_taken_over(start: StartServer) -> None:
    start().kill()
    server = start(name="second")

    with OldClient(server.path) as client:
        assert client.ask()["l1_allocated"] == 0


def test_a_socket_file_that_somebody_removed_comes_back(server: RunningServer) -> None:
    with OldClient(server.path) as client:
        client.alloc(4096, 1)
        client.ask()
        os.unlink(server.path)
        server.logs("was removed; it is there again")

        assert client.ask()["l1_allocated"] == 4096
        with OldClient(server.path) as another:
            assert another.ask()["l1_allocated"] == 4096


def test_a_file_that_is_no_socket_is_not_touched(start: StartServer, tmp_path: Path) -> None:
    precious = tmp_path / "allocation.sock"
    precious.write_text("precious")
    server = start()

    assert server.process.wait() == 2
    assert "is no socket; remove it, or choose another --socket" in server.log
    assert precious.read_text() == "precious"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it_cleanly(server: RunningServer, number: signal.Signals) -> None:
    with OldClient(server.path):
        server.process.send_signal(number)

        assert server.process.wait(PATIENCE_S) == 0
    assert not os.path.exists(server.path)
    assert not os.path.exists(server.path + ".lock")


def test_sigusr1_logs_a_summary_and_it_serves_on(server: RunningServer) -> None:
    with OldClient(server.path) as client:
        client.alloc(4096, 1)
        client.ask()
        server.process.send_signal(signal.SIGUSR1)

        server.logs(r"summary: 1 device, 1 process,")
        server.logs(r"device 0 .*L1 used 4.0 KiB of N/A")
        assert client.ask()["l1_allocated"] == 4096


def test_each_event_can_be_logged_in_the_seeds_words(start: StartServer) -> None:
    server = start("--log-events")
    with OldClient(server.path) as client:
        client.send(Message.KERNEL_LOAD, 0, 57_344 * 16, 1, 1)
        client.send(Message.KERNEL_LOAD, 0, 47_104 * 2, 2, 2)
        client.send(Message.KERNEL_UNLOAD, 0, 0, 0, 2)
        client.alloc(1 << 20, 0x1000)
        client.alloc(1 << 20, 0x1000)
        client.send(Message.FREE, id=0x1000)
        client.send(Message.FREE, id=0x1000)
        client.send(Message.FREE, id=0x1000)
        client.send(Message.CB_ALLOC, 0, 1 << 19, 0, 0x500)
        client.ask()

    pid = os.getpid()
    lines = server.output.splitlines()
    peak = next(line for line in lines if "Peak" in line)
    assert peak.endswith("ms] L1 Peak on device 0: 1 MB (1 buffers)")
    assert [line for line in lines if line != peak] == [
        "✓ [KERNEL_LOAD] Fabric kernel on Device 0: +0.875 MB (Total: 0.875 MB)",
        "✓ [KERNEL_LOAD] Dispatch kernel on Device 0: +0.090 MB (Total: 0.965 MB)",
        "✗ [KERNEL_UNLOAD] Dispatch kernel on Device 0: -0.090 MB (Total: 0.875 MB)",
        f"✓ [PID {pid}] Allocated 1048576 bytes of L1 on device 0 (buffer_id=0x1000)",
        f"✓ [PID {pid}] Allocated 1048576 bytes of L1 on device 0 (buffer_id=0x1000, ref_count=2)",
        f"✗ [PID {pid}] Freed buffer 0x1000 on device 0 (1048576 bytes, ref_count=1 remaining)",
        f"✗ [PID {pid}] Freed buffer 0x1000 on device 0 (1048576 bytes, FINAL)",
        f"⚠ [PID {pid}] Deallocation for unknown buffer 0x1000 on device 0 (allocated before tracking started)",
        "✓ [CB_ALLOC] Device 0: +0.500 MB (Total: 0.500 MB)",
    ]


def test_events_are_not_logged_by_default(server: RunningServer) -> None:
    with OldClient(server.path) as client:
        client.alloc(4096, 1)
        client.ask()

    assert server.output == ""


def test_a_cluster_file_gives_devices_before_anyone_reports(start: StartServer) -> None:
    descriptor = Path(__file__).parent.parent / "data" / "cluster_descriptors" / "p150x4.yaml"
    server = start("--cluster", str(descriptor))

    devices = server.picture().devices
    assert [device.logical_id for device in devices] == [0, 1, 2, 3]
    assert len({device.unique_id for device in devices}) == 4
    assert all(device.board == "p150" and device.l1_capacity for device in devices)


def test_a_file_that_is_no_descriptor_is_refused_with_a_sentence(
    start: StartServer, tmp_path: Path
) -> None:
    (tmp_path / "bad.yaml").write_text("arch: [")
    server = start("--cluster", str(tmp_path / "bad.yaml"))

    assert server.process.wait() == 2
    assert server.log.startswith("ttmem: ")
    assert "bad.yaml" in server.log


def test_history_holds_a_sample_for_each_second(server: RunningServer) -> None:
    with OldClient(server.path) as client:
        client.alloc(4096, 1)
        client.ask()
        history = wait_until(lambda: server.picture("history").detail["history"])

    (columns,) = history.values()
    assert columns["l1_used"][-1] == columns["l1"][-1] == 4096
    assert len(columns["time_ns"]) == len(columns["dram"])


def test_a_process_that_holds_nothing_and_left_is_forgotten(server: RunningServer) -> None:
    with child(
        "c = OldClient(sys.argv[1]); c.alloc(1, 1); c.send(2, id=1); c.ask(); c.socket.close()",
        server.path,
    ):
        server.sees(lambda p: bool(p.devices) and not p.processes)


def test_the_server_runs_under_python_minus_m(tmp_path: Path) -> None:
    said = subprocess.run(
        [sys.executable, "-m", "ttmem", "serve", "--help"],
        capture_output=True,
        text=True,
        check=True,
    )

    assert "TT_ALLOC_TRACKING_ENABLED=1" in said.stdout
