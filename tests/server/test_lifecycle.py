"""Starting, stopping, and the words of the log."""

from __future__ import annotations

import grp
import os
import signal
import stat
from pathlib import Path

import pytest

from tests.own_process import finish
from tests.patience import PATIENCE_S, wait_until
from tests.server.conftest import StartServer
from tests.server.harness import OldClient, RunningServer, child


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


def test_a_removed_socket_file_is_created_again(server: RunningServer) -> None:
    with OldClient(server.path) as client:
        client.alloc(4096, 1)
        client.ask()
        os.unlink(server.path)
        server.logs("was removed; it has been created again")

        assert client.ask()["l1_allocated"] == 4096
        with OldClient(server.path) as another:
            assert another.ask()["l1_allocated"] == 4096


def test_a_file_that_is_not_a_socket_is_not_touched(start: StartServer, tmp_path: Path) -> None:
    precious = tmp_path / "allocation.sock"
    precious.write_text("precious")
    server = start()

    assert server.process.wait() == 2
    assert "is not a socket; remove it, or choose another --socket" in server.log
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


def test_a_summary_is_logged_again_and_again_on_request(start: StartServer) -> None:
    server = start("--summary", "0.1")
    with OldClient(server.path) as client:
        client.alloc(4096, 1)
        client.ask()

        wait_until(lambda: server.log.count("L1 used 4.0 KiB") >= 3)
        assert server.log.count("L1 used 4.0 KiB") >= 3
        assert client.ask()["l1_allocated"] == 4096


def test_the_last_thing_logged_is_a_summary(server: RunningServer) -> None:
    with OldClient(server.path) as client:
        client.alloc(4096, 1)
        client.ask()
        assert "summary:" not in server.log

        assert server.stop() == 0
    last = [line.split(" INFO ")[1] for line in server.log.splitlines()[-3:]]
    assert last[0].startswith("summary: 1 device, 1 process, 1 connection, 1 live entry,")
    assert "L1 used 4.0 KiB" in last[1]
    assert last[2] == "stopped"


@pytest.mark.parametrize("options", [("--summary", "0"), ("--summary", "5", "--quiet")])
def test_a_summary_that_cannot_be_is_refused(start: StartServer, options: tuple[str, ...]) -> None:
    server = start(*options)

    assert server.process.wait() == 2
    assert "--summary" in server.log


def test_a_cluster_file_gives_devices_before_anyone_reports(start: StartServer) -> None:
    descriptor = Path(__file__).parent.parent / "data" / "cluster_descriptors" / "p150x4.yaml"
    server = start("--cluster", str(descriptor))

    devices = server.picture().devices
    assert [device.logical_id for device in devices] == [0, 1, 2, 3]
    assert len({device.unique_id for device in devices}) == 4
    assert all(device.board == "p150" and device.l1_capacity for device in devices)


def test_a_file_that_is_not_a_descriptor_is_refused_with_a_clear_error(
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
        history = wait_until(lambda: server.picture("history").history or {})

    (columns,) = history.values()
    assert columns.l1_used[-1] == columns.l1[-1] == 4096
    assert len(columns.time_ns) == len(columns.dram)


def test_a_process_that_holds_nothing_and_left_is_forgotten(server: RunningServer) -> None:
    with child(
        "c = OldClient(sys.argv[1]); c.alloc(1, 1); c.send(2, id=1); c.ask(); c.socket.close()",
        server.path,
    ):
        server.sees(lambda p: bool(p.devices) and not p.processes)


def test_the_server_runs_under_python_minus_m(tmp_path: Path) -> None:
    assert "TT_ALLOC_TRACKING_ENABLED=1" in finish("serve", "--help").stdout
