"""What the server makes of reports: the figures of the original system, and the counters that it got wrong."""

from __future__ import annotations

import resource
from contextlib import ExitStack

import pytest

from tests.patience import wait_until
from tests.server.conftest import StartServer
from tests.server.harness import OldClient, RunningServer, child
from ttmem.events import Op
from ttmem.wire.historical import SIZES, Message

MIB = 1 << 20
FABRIC, DISPATCH = 1, 2


@pytest.mark.parametrize("size", SIZES)
def test_reports_and_questions_work_in_every_record_size(server: RunningServer, size: int) -> None:
    with OldClient(server.path, size) as client:
        client.alloc(4096, 0x1000, kind=0)
        client.alloc(2048, 0x2000, kind=1)
        client.alloc(1024, 0x3000, kind=3)
        client.alloc(512, 0x4000, kind=4)
        answer = client.ask()

    expected = {
        "dram_allocated": 4096,
        "l1_allocated": 2048,
        "l1_small_allocated": 1024,
        "trace_allocated": 512,
    }
    assert {name: answer[name] for name in expected} == expected


def test_host_memory_is_in_no_device_sum(server: RunningServer) -> None:
    with OldClient(server.path) as client:
        client.alloc(1 * MIB, 0x10, kind=2)
        client.alloc(4096, 0x20, kind=3)
        answer = client.ask()

        assert answer["l1_small_allocated"] == 4096
        assert server.device().l1_used == 4096


def test_system_kernels_have_the_footprints_of_the_original_system(server: RunningServer) -> None:
    with OldClient(server.path) as client:
        for number in range(4):
            client.send(Op.KERNEL_LOAD, number, 57_344 * 16, FABRIC, 1)
            client.send(Op.KERNEL_LOAD, number, 47_104 * 2, DISPATCH, 2)
        server.sees(lambda picture: sum(d.kernels.loads or 0 for d in picture.devices) == 8)

        for device in server.picture().devices:
            footprint = device.kernels.footprint
            assert (footprint.fabric, footprint.dispatch, footprint.total) == (
                917_504,
                94_208,
                988 * 1024,
            )
            assert device.l1_used == 0
            assert client.ask(device.logical_id or 0)["kernel_allocated"] == 988 * 1024


def test_a_kernel_loaded_a_thousand_times_moves_counters_only(server: RunningServer) -> None:
    with child(
        "client = OldClient(sys.argv[1])\nfor _ in range(1001): client.send(10, 0, 57344, 1, 7)",
        server.path,
    ) as job:
        kernels = (
            server.sees(lambda p: any(d.kernels.dispatches == 1000 for d in p.devices))
            .devices[0]
            .kernels
        )
        assert (kernels.loads, kernels.dispatches, kernels.footprint.total) == (1, 1000, 57_344)
        job.kill()

        server.sees(lambda picture: picture.devices[0].kernels.footprint.total == 0)


AFTER_EXEC = """
import sys; from tests.server.harness import OldClient
after = OldClient(sys.argv[1]); after.alloc(64, 2); after.ask()
print('ready', flush=True); import time; time.sleep(600)
"""


@pytest.mark.parametrize("inherited", [True, False])
@pytest.mark.parametrize("reports", [True, False])
def test_a_program_that_follows_by_exec_holds_nothing_of_the_one_before(
    server: RunningServer, inherited: bool, reports: bool
) -> None:
    after = AFTER_EXEC if reports else "print('ready', flush=True); import time; time.sleep(600)"
    code = f"""
    import os
    before = OldClient(sys.argv[1]); before.alloc(4096, 1); before.ask()
    before.socket.set_inheritable({inherited})
    os.execv(sys.executable, [sys.executable, "-c", {after!r}, sys.argv[1]])
    """
    with child(code, server.path) as job:
        expected = 64 if reports else 0
        picture = server.sees(
            lambda picture: bool(picture.devices) and picture.devices[0].memory.l1.held == expected
        )

        assert [process.pid for process in picture.processes] == [job.pid] * reports
        (left,) = picture.left_behind
        assert (left.pid, [held.l1 for held in left.devices.values()]) == (job.pid, [4096])


def test_seed_004_on_its_own_capacity_is_below_it_with_kernels_apart(start: StartServer) -> None:
    server = start("--l1-capacity", "171.6MiB")
    with OldClient(server.path) as client:
        _send_seed_004(client)
        device = server.sees(lambda p: bool(p.devices) and p.devices[0].kernels.loads == 1).devices[
            0
        ]

    assert round(device.l1_used / MIB, 1) == 159.8
    assert round((device.kernels.footprint.total or 0) / MIB, 1) == 173.8
    assert device.l1_capacity is not None
    assert device.l1_used < device.l1_capacity
    assert device.anomalies == ()


def test_seed_004_on_a_real_n300_chip_is_named_as_impossible(start: StartServer) -> None:
    server = start("--board", "n300")
    with OldClient(server.path) as client:
        _send_seed_004(client)
        device = server.sees(lambda p: bool(p.devices) and p.devices[0].kernels.loads == 1).devices[
            0
        ]
        holder = server.picture().processes[0].pid

    assert (device.l1_total, device.l1_capacity) == (64 * 1_499_136, 64 * 1_393_312)
    (anomaly,) = device.anomalies
    assert anomaly.kind == "over_capacity"
    assert anomaly.pid == holder
    assert anomaly.bytes == device.l1_used - 64 * 1_393_312
    assert "74.8 MiB more than the 85.0 MiB" in anomaly.text


def _send_seed_004(client: OldClient) -> None:
    client.alloc(819, 0x1000, kind=1)
    client.alloc(int(1.3 * MIB), 0x2000, kind=3)
    client.send(Op.CB_ALLOC, 0, int(158.5 * MIB), 0, 0x19D60)
    client.send(Op.KERNEL_LOAD, 0, int(173.8 * MIB), 0, 1)


def test_two_processes_may_use_the_same_buffer_id(server: RunningServer) -> None:
    code = "OldClient(sys.argv[1]).alloc(int(sys.argv[2]), 0x1000)"
    with child(code, server.path, "4096") as first, child(code, server.path, "8192") as second:
        picture = server.sees(lambda p: bool(p.devices) and p.devices[0].memory.l1.held == 12_288)
        held = {p.pid: p.devices[picture.devices[0].unique_id].l1 for p in picture.processes}
        assert held == {first.pid: 4096, second.pid: 8192}

        first.kill()
        server.sees(lambda p: p.devices[0].memory.l1.held == 8192)


def test_frees_of_what_was_never_allocated_change_nothing(server: RunningServer) -> None:
    with OldClient(server.path) as client:
        client.send(Op.FREE, 0, 0, 0, 0xDEAD)
        client.send(Op.CB_FREE, 0, 4096, 0, 0xDEAD)
        client.send(Op.KERNEL_UNLOAD, 0, 4096, 0, 0xDEAD)
        answer = client.ask()

        assert not any(
            answer[name] for name in ("l1_allocated", "cb_allocated", "kernel_allocated")
        )
        kinds = {anomaly.kind for anomaly in server.device().anomalies}
        assert kinds == {"unknown_free", "unknown_cb_free", "unknown_unload"}


def test_a_repeated_alloc_of_the_same_size_is_one_buffer_with_references(
    server: RunningServer,
) -> None:
    with OldClient(server.path) as client:
        for _ in range(3):
            client.alloc(4096, 0x1000)
        client.send(Op.FREE, id=0x1000)
        assert client.ask()["l1_allocated"] == 4096

        client.send(Op.FREE, id=0x1000)
        client.send(Op.FREE, id=0x1000)
        assert client.ask()["l1_allocated"] == 0


def test_a_reused_id_with_another_size_ends_the_old_buffer_with_an_anomaly(
    server: RunningServer,
) -> None:
    with OldClient(server.path) as client:
        client.alloc(524_288, 25_718_784)
        client.alloc(98_304, 25_718_784)

        assert client.ask()["l1_allocated"] == 98_304
        assert [a.kind for a in server.device().anomalies] == ["buffer_resized"]


def test_circular_buffers_at_one_address_stack(server: RunningServer) -> None:
    with OldClient(server.path) as client:
        for size in (1000, 2000, 2000):
            client.send(Op.CB_ALLOC, 0, size, 0, 0x19D60)
        client.send(Op.CB_FREE, 0, 2000, 0, 0x19D60)
        assert client.ask()["cb_allocated"] == 3000

        client.send(
            Op.CB_FREE, 0, 0, 0, 0x19D60
        )  # a client of the first days: no size, so the latest
        assert client.ask()["cb_allocated"] == 1000


def test_a_killed_process_holds_nothing_and_what_it_left_is_shown(server: RunningServer) -> None:
    code = """
        client = OldClient(sys.argv[1])
        client.alloc(4096, 1); client.alloc(8192, 2, kind=0)
        client.send(8, 0, 100, 0, 3); client.send(10, 0, 57344, 1, 4)
    """
    with child(code, server.path) as job:
        server.sees(lambda p: bool(p.devices) and p.devices[0].kernels.loads == 1)
        job.kill()
        picture = server.sees(lambda p: not p.processes)

    device = picture.devices[0]
    assert device.l1_used == device.memory.dram.held == device.kernels.footprint.total == 0
    (left,) = picture.left_behind
    assert left.pid == job.pid
    assert left.devices[device.unique_id].dram == 8192
    assert left.devices[device.unique_id].l1_used == 4196


def test_a_process_that_closes_its_connection_and_lives_keeps_its_memory(
    server: RunningServer,
) -> None:
    code = "c = OldClient(sys.argv[1]); c.alloc(4096, 1); c.ask(); c.socket.close()"
    with child(code, server.path) as job:
        picture = server.sees(lambda p: bool(p.processes) and not p.processes[0].connected)
        assert picture.devices[0].l1_used == 4096

        job.kill()
        server.sees(lambda p: p.devices[0].l1_used == 0)


def test_what_a_dying_process_had_sent_is_counted_before_it_is_released(
    server: RunningServer,
) -> None:
    code = "c = OldClient(sys.argv[1])\nfor n in range(3000): c.send(10, 0, 57344, 1, n)\nimport os; os._exit(0)"
    with pytest.raises(AssertionError), child(code, server.path):
        pass

    device = wait_until(lambda: next(iter(server.picture().devices), None))
    assert device is not None
    server.sees(
        lambda p: p.devices[0].kernels.loads == 3000 and p.devices[0].kernels.footprint.total == 0
    )


def test_device_info_says_what_the_options_know(start: StartServer) -> None:
    server = start("--board", "p150")
    with OldClient(server.path) as client:
        client.alloc(4096, 1, device=2)
        info = client.ask(2, Message.DEVICE_INFO_QUERY)
        count = client.ask(-1, Message.DEVICE_INFO_QUERY)

    assert info["arch_type"] == 3
    assert info["total_l1_size"] == 110 * 1_572_864
    assert info["num_dram_channels"] == 8
    assert info["ringbuffer_total_size"] == 110 * 70_656
    assert (count["num_devices"], count["is_available"]) == (1, 1)


def test_a_board_that_is_sold_with_more_cores_too_is_said_to_be_so(start: StartServer) -> None:
    server = start("--board", "p150")
    with OldClient(server.path) as client:
        client.alloc(4096, 1)
        capacity = server.device().provenance["capacity"]

    assert "some p150 have 120 compute cores, not 110" in (capacity.misses or "")
    assert "--cluster" in (capacity.misses or "")


def test_without_a_declaration_capacities_are_unknown_and_say_why(server: RunningServer) -> None:
    with OldClient(server.path) as client:
        client.alloc(4096, 1)
        device = server.device()

    assert device.l1_capacity is device.memory.dram.capacity is device.memory.l1.free is None
    assert "--board" in (device.provenance["capacity"].misses or "")
    assert device.provenance["identity"].method == "made from host and logical id"


def test_dumps_are_printed_as_the_original_did_and_are_data_too(server: RunningServer) -> None:
    with OldClient(server.path) as client:
        client.alloc(12 * 1024, 0x3FFFF800, kind=0)
        client.send(Op.KERNEL_LOAD, 0, 57_344, FABRIC, 9)
        client.send(Message.DUMP_REMAINING)
        client.send(Message.DUMP_KERNELS)
        client.ask()
        picture = server.picture("buffers", "programs")

    wait_until(lambda: "Fabric kernel 0x9: 56 KB (PID" in server.output)
    assert "DRAM: 1 buffers, 0.0117188 MB total" in server.output
    assert "- Buffer 0x3ffff800: 12 KB (PID" in server.output
    assert (picture.buffers or ())[0].address == 0x3FFFF800
    assert (picture.kernels or ())[0].type == "fabric"


MANY = 1100  # connections; select() ends at descriptor 1,023


@pytest.mark.skipif(
    resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 4 * MANY, reason="too few descriptors allowed"
)
def test_a_killed_process_holds_nothing_however_many_connections_there_are(
    server: RunningServer,
) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limits[1], limits[1]))
    with ExitStack() as open_:
        open_.callback(resource.setrlimit, resource.RLIMIT_NOFILE, limits)
        for _ in range(MANY):
            open_.enter_context(OldClient(server.path)).ask()
        with child(f"OldClient({server.path!r}).alloc(4096, 1)") as process:
            server.sees(lambda picture: picture.devices[0].l1_used == 4096)
            process.kill()

            server.sees(lambda picture: picture.devices[0].l1_used == 0)
