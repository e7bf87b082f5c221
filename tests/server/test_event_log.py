"""`serve --log-events`: a line for each event, and a loop that never waits for its reader."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.patience import wait_until
from tests.server.conftest import StartServer
from tests.server.harness import CLOSED, OldClient, RunningServer, child
from ttmem.events import Op
from ttmem.wire.historical import Head, encode

MIB = 1 << 20
FABRIC, DISPATCH = 1, 2


def lines_of(server: RunningServer, count: int) -> list[str]:
    """Once so many are written, without the peaks, which have times."""
    wait_until(lambda: server.output.count("\n") >= count)
    return [line for line in server.output.splitlines() if "Peak" not in line]


def test_each_event_has_the_line_of_the_original_server(start: StartServer) -> None:
    server = start("--log-events")
    with OldClient(server.path) as client:
        client.send(Op.KERNEL_LOAD, 0, 57_344 * 16, FABRIC, 1)
        client.send(Op.KERNEL_LOAD, 0, 47_104 * 2, DISPATCH, 2)
        client.send(Op.KERNEL_UNLOAD, 0, 0, 0, 2)
        client.alloc(MIB, 0x1000)
        client.alloc(MIB, 0x1000)
        client.send(Op.FREE, id=0x1000)
        client.send(Op.FREE, id=0x1000)
        client.send(Op.CB_ALLOC, 0, MIB // 2, 0, 0x500)
        client.send(Op.CB_FREE, 0, MIB // 2, 0, 0x500)
        client.alloc(524_288, 0x2000, device=3)
        client.alloc(98_304, 0x2000, device=3)
        client.ask()

    pid = os.getpid()
    assert lines_of(server, 13) == [
        "✓ [KERNEL_LOAD] Fabric kernel on Device 0: +0.875 MB (Total: 0.875 MB)",
        "✓ [KERNEL_LOAD] Dispatch kernel on Device 0: +0.090 MB (Total: 0.965 MB)",
        "✗ [KERNEL_UNLOAD] Dispatch kernel on Device 0: -0.090 MB (Total: 0.875 MB)",
        f"✓ [PID {pid}] Allocated 1048576 bytes of L1 on device 0 (buffer_id=0x1000)",
        f"✓ [PID {pid}] Allocated 1048576 bytes of L1 on device 0 (buffer_id=0x1000, ref_count=2)",
        f"✗ [PID {pid}] Freed buffer 0x1000 on device 0 (1048576 bytes, ref_count=1 remaining)",
        f"✗ [PID {pid}] Freed buffer 0x1000 on device 0 (1048576 bytes, FINAL)",
        "✓ [CB_ALLOC] Device 0: +0.500 MB (Total: 0.500 MB)",
        "✗ [CB_FREE] Device 0: -0.500 MB (Total: 0.000 MB)",
        f"✓ [PID {pid}] Allocated 524288 bytes of L1 on device 3 (buffer_id=0x2000)",
        f"⚠ [PID {pid}] Buffer 0x2000 on device 3 reused with another size: old=524288 new=98304",
        f"✓ [PID {pid}] Allocated 98304 bytes of L1 on device 3 (buffer_id=0x2000)",
    ]
    (peak,) = [line for line in server.output.splitlines() if "Peak" in line]
    assert peak.endswith("ms] L1 Peak on device 0: 1 MB (1 buffers)")


def test_a_second_free_and_the_free_of_a_stranger_have_different_lines(start: StartServer) -> None:
    server = start("--log-events")
    with OldClient(server.path) as client:
        client.alloc(4096, 0x1000)
        client.send(Op.CB_ALLOC, 0, 4096, 0, 0x500)
        client.send(Op.KERNEL_LOAD, 0, 4096, 0, 7)
        for id in (0x1000, 0x1000, 0xDEAD):
            client.send(Op.FREE, id=id)
        for id in (0x500, 0x500, 0xDEAD):
            client.send(Op.CB_FREE, 0, 4096, 0, id)
        for id in (7, 7, 0xDEAD):
            client.send(Op.KERNEL_UNLOAD, 0, 4096, 0, id)
        client.ask()

    who = f"⚠ [PID {os.getpid()}]"
    assert [line for line in lines_of(server, 12) if line.startswith("⚠")] == [
        f"{who} Deallocation for already freed buffer 0x1000 on device 0 (double free)",
        f"{who} Deallocation for unknown buffer 0xdead on device 0 (allocated before tracking started)",
        f"{who} CB_FREE for already freed circular buffer 0x500 on device 0 (double free)",
        f"{who} CB_FREE for unknown circular buffer 0xdead on device 0 (allocated before tracking started)",
        f"{who} KERNEL_UNLOAD for already unloaded kernel 0x7 on device 0 (double free)",
        f"{who} KERNEL_UNLOAD for unknown kernel 0xdead on device 0 (loaded before tracking started)",
    ]


def test_a_rejected_record_has_no_line(start: StartServer) -> None:
    server = start("--log-events")
    with OldClient(server.path) as client:
        client.alloc(0, 1)
        client.alloc(4096, 2, kind=9)
        client.alloc(4096, 3, device=-1)
        client.send(Op.CB_ALLOC, 0, 0, 0, 4)
        client.send(Op.KERNEL_LOAD, 0, 0, FABRIC, 5)
        client.alloc(4096, 6)
        client.ask()

    assert lines_of(server, 1) == [
        f"✓ [PID {os.getpid()}] Allocated 4096 bytes of L1 on device 0 (buffer_id=0x6)"
    ]
    assert server.picture().losses.rejected_records == 5


def test_dispatches_have_lines_on_request_only(start: StartServer) -> None:
    for option, expected in (("--log-events", 1), ("--log-dispatches", 3)):
        server = start(option)
        with OldClient(server.path) as client:
            for _ in range(3):
                client.send(Op.KERNEL_LOAD, 0, 4096, FABRIC, 7)
            client.ask()

        found = lines_of(server, expected)
        assert found[0] == "✓ [KERNEL_LOAD] Fabric kernel on Device 0: +0.004 MB (Total: 0.004 MB)"
        who = f"✓ [DISPATCH] [PID {os.getpid()}] Kernel 0x7 on Device 0"
        both = [f"{who} (Total: 1)", f"{who} (Total: 2)"]
        assert found[1:] == both[: expected - 1]
        server.kill()


def test_the_lines_for_a_dead_process_name_its_buffers_circular_buffers_and_kernels(
    start: StartServer,
) -> None:
    server = start("--log-events")
    code = """
    c = OldClient(sys.argv[1])
    c.alloc(3 << 20, 1); c.alloc(1 << 20, 2, kind=0)
    c.send(8, 0, 1 << 19, 0, 0x500); c.send(10, 0, 57344 * 16, 1, 1); c.send(10, 0, 57344 * 16, 1, 2)
    c.ask()
    """
    with child(code, server.path) as process:
        process.kill()
        wait_until(lambda: f"kernels (1.75 MB) from PID {process.pid}" in server.output)

    assert lines_of(server, 4)[-4:] == [
        f"⚠ PID {process.pid} is dead, removing its buffers...",
        f"   ✓ Removed 2 buffers (4 MB) from PID {process.pid}",
        f"   ✓ Removed 1 CBs (0.5 MB) from PID {process.pid}",
        f"   ✓ Removed 2 kernels (1.75 MB) from PID {process.pid}",
    ]
    server.logs(r"ended; released .*; 2 kernels, 1.8 MiB if resident everywhere")


def test_a_dead_process_that_had_kernels_only_has_its_lines(start: StartServer) -> None:
    server = start("--log-events")
    code = "c = OldClient(sys.argv[1]); c.send(10, 0, 1 << 20, 1, 1); c.ask()"
    with child(code, server.path) as process:
        process.kill()
        wait_until(lambda: "is dead" in server.output)

    assert lines_of(server, 3)[-1] == f"   ✓ Removed 1 kernels (1 MB) from PID {process.pid}"
    server.logs("ended; released 1 kernel, 1.0 MiB if resident everywhere")


def test_events_are_not_logged_by_default(server: RunningServer) -> None:
    with OldClient(server.path) as client:
        client.alloc(4096, 1)
        client.ask()

    assert server.output == ""


# ---- who reads it ------------------------------------------------------------------------------


def flood(client: OldClient, events: int) -> None:
    """Pairs of an allocation and its free; each has a line of about 90 bytes."""
    pair = encode(144, Head(Op.ALLOC, 0, 4096, 1, os.getpid(), 0xABCDEF)) + encode(
        144, Head(Op.FREE, 0, 0, 0, os.getpid(), 0xABCDEF)
    )
    for _ in range(events // 1000):
        client.socket.sendall(pair * 500)


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe()
    yield reader, writer
    for end in (reader, writer):
        try:
            os.close(end)
        except OSError:
            pass  # the test closed it


def test_a_stalled_reader_delays_no_other_and_its_losses_are_counted(
    start: StartServer, pipe: tuple[int, int]
) -> None:
    reader, writer = pipe
    server = start("--log-events", stdout=writer)
    os.close(writer)
    with OldClient(server.path) as client:
        flood(client, 600_000)  # some 55 MB of lines; 32 MiB are kept
        client.alloc(4096, 1)

        assert client.ask()["l1_allocated"] == 4096  # everything was accounted
        server.logs(
            "lines for standard output were dropped so far: it is read too slowly, or not at all"
        )
        seen = missed = 0
        with os.fdopen(os.dup(reader), "rb") as late:
            for line in late:
                if b"lines are missing here" in line:
                    missed += int(line.split()[1].replace(b",", b""))
                else:
                    seen += 1
                if seen == 200_000:  # there is room again
                    client.alloc(8192, 2)
                if b"Allocated 8192" in line:
                    break
        assert missed > 0
        assert seen + missed == 600_002


@pytest.mark.parametrize("gone", ["closed pipe", "full disk", "no stdout"])
def test_an_output_that_takes_nothing_ends_nothing(
    start: StartServer, pipe: tuple[int, int], gone: str
) -> None:
    reader, writer = pipe
    if gone == "closed pipe":
        os.close(reader)
        server = start("--log-events", stdout=writer)
    elif gone == "full disk":
        with open("/dev/full", "wb") as full:
            server = start("--log-events", stdout=full.fileno())
    else:
        server = start("--log-events", stdout=CLOSED)
    with OldClient(server.path) as client:
        client.alloc(4096, 1)
        assert client.ask()["l1_allocated"] == 4096
        client.alloc(4096, 2)
        assert client.ask()["l1_allocated"] == 8192
        reason = {
            "closed pipe": "Broken pipe",
            "full disk": "No space left on device",
            "no stdout": "there is none",
        }
        server.logs(f"lines for standard output were dropped so far: {reason[gone]}")
    assert server.stop() == 0
    assert "2 lines of output dropped" in server.log


def test_a_slow_reader_gets_every_line(start: StartServer, pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    server = start("--log-events", stdout=writer)
    os.close(writer)
    with OldClient(server.path) as client, os.fdopen(os.dup(reader), "rb") as late:
        flood(client, 20_000)  # much more than a pipe holds
        client.ask()

        lines = [late.readline() for _ in range(20_000)]
    assert lines[0].startswith("✓ [PID".encode())
    assert lines[-1].endswith(b"(4096 bytes, FINAL)\n")
    assert server.stop() == 0
    assert "dropped so far" not in server.log
