"""However much one user demands, the server keeps serving others, and a remark names that user."""

from __future__ import annotations

import os
import pwd
import select
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from tests.other_user import OTHER, needs_root
from tests.patience import PATIENCE_S, wait_until
from tests.server.conftest import Share, StartServer
from tests.server.harness import OldClient, RunningServer, child
from ttmem.client import AllocationClient
from ttmem.client.query import ServerConnection
from ttmem.events import Event, MemoryKind, Op
from ttmem.snapshots import Snapshot
from ttmem.wire import frames
from ttmem.wire.frames import Frame, json_frame, parse_answer
from ttmem.wire.historical import Head, Message, encode

UID = pwd.getpwnam(OTHER).pw_uid
BECOME = f"import os; os.setgroups([]); os.setgid({UID}); os.setuid({UID})\n"
FILES = 300  # (300 - 64) / 2: room for 118 connections, of which one user may have 59
MONITOR = frames.preamble() + json_frame(Frame.HELLO, {"role": "monitor"})
APPLICATION = frames.preamble() + json_frame(Frame.HELLO, {"role": "application"})
SNAPSHOT = json_frame(Frame.QUERY, {"what": "snapshot"})
MIB = 1 << 20


def connected(server: RunningServer, opening: bytes = b"") -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(PATIENCE_S)
    connection.connect(server.path)
    connection.sendall(opening)
    return connection


def received(connection: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length:
        piece = connection.recv(length - len(data))
        assert piece, "the server closed the connection"
        data += piece
    return data


def next_frame(connection: socket.socket) -> tuple[int, bytes]:
    kind, length = frames.HEADER.unpack(received(connection, frames.HEADER.size))
    return kind, received(connection, length)


def monitor(server: RunningServer) -> socket.socket:
    connection = connected(server, MONITOR)
    received(connection, frames.PREAMBLE.size)
    assert next_frame(connection)[0] == Frame.WELCOME
    return connection


def answered_at(connection: socket.socket) -> int:
    """When the server made the next answer, by its own clock."""
    document, _ = parse_answer(next_frame(connection)[1])
    time_ns: int = document["snapshot"]["time_ns"]
    return time_ns


@contextmanager
def stopped(server: RunningServer) -> Iterator[None]:
    """Whatever is sent meanwhile is there all at once when it goes on."""
    server.process.send_signal(signal.SIGSTOP)
    yield
    server.process.send_signal(signal.SIGCONT)


def limits(server: RunningServer) -> str:
    return "\n".join(
        anomaly.text for anomaly in server.picture().remarks if anomaly.kind == "limit"
    )


def memory(server: RunningServer) -> int:
    return int(Path(f"/proc/{server.process.pid}/statm").read_text().split()[1]) * 4096


# ---- connections -----------------------------------------------------------------------------------------------


def test_a_user_who_opens_too_many_connections_loses_the_idlest(
    start: StartServer,
) -> None:
    server = start(files=FILES)
    with ExitStack() as open_, OldClient(server.path) as reporter:
        reporter.alloc(4096, 1)
        reporter.ask()
        reporter.alloc(4096, 2)
        server.sees(lambda p: bool(p.devices) and p.devices[0].l1_used == 8192)
        first = open_.enter_context(connected(server))
        for _ in range(FILES):
            open_.enter_context(connected(server))

        assert first.recv(1) == b""
        reporter.alloc(4096, 3)
        with OldClient(server.path) as another:
            assert another.ask()["l1_allocated"] == 3 * 4096
        assert f"(uid {os.getuid()}): an idle connection was closed: too many" in limits(server)


@needs_root
def test_idle_connections_of_one_user_do_not_lock_the_others_out(
    start: StartServer, open_to_everybody: Share
) -> None:
    server = start(files=FILES)
    path = open_to_everybody(server)
    with closing(AllocationClient(server.path)) as client:
        client.report_allocation(0, 1, 100)
        server.sees(lambda p: bool(p.devices))
        code = BECOME + f"all = [OldClient(sys.argv[1]) for _ in range({FILES})]"
        with child(code, path):
            wait_until(lambda: f"uid {UID}" in limits(server))

            roots = [OldClient(server.path) for _ in range(100)]
            for root in roots:
                assert root.ask()["dram_allocated"] == 100
                root.socket.close()
            assert f"(uid {UID}): an idle connection was closed: too many" in limits(server)
        assert client.stats().resyncs == 1  # its connection was never closed


@needs_root
def test_a_user_whose_connections_all_report_is_refused_more_with_a_sentence(
    start: StartServer, open_to_everybody: Share
) -> None:
    server = start(files=FILES)
    path = open_to_everybody(server)
    code = """
    import socket
    from ttmem.wire import frames
    all = [OldClient(sys.argv[1]) for _ in range(59)]
    for number, one in enumerate(all):
        one.alloc(100, number + 1)
        one.alloc(100, number + 1000)
    import time; time.sleep(float(sys.argv[2]))
    more = socket.socket(socket.AF_UNIX); more.connect(sys.argv[1])
    try:
        more.sendall(frames.preamble()); more.recv(100)
    except OSError: pass
    """
    with child(BECOME + "\n".join(line[4:] for line in code.splitlines()), path, "1"):
        server.sees(lambda p: bool(p.devices) and p.devices[0].l1_used == 59 * 200)
        wait_until(lambda: f"(uid {UID}): a connection was refused: too many" in limits(server))
        with OldClient(server.path) as root:
            assert root.ask()["l1_allocated"] == 59 * 200


def test_a_client_that_is_closed_for_being_idle_is_told_why(start: StartServer) -> None:
    server = start(files=FILES)
    with monitor(server) as idle, ExitStack() as open_:
        for _ in range(FILES):
            open_.enter_context(connected(server))

        kind, sentence = next_frame(idle)
        assert kind == Frame.REFUSED
        assert b"too many connections are open" in sentence


# ---- what waits in memory --------------------------------------------------------------------------------------


def test_unread_answers_are_bounded_for_each_user_and_then_dropped(
    server: RunningServer,
) -> None:
    with ExitStack() as open_, OldClient(server.path) as client:
        pid = os.getpid()
        client.socket.sendall(
            b"".join(encode(144, Head(1, 0, 64, 1, pid, n)) for n in range(40_000))
        )
        server.sees(lambda p: bool(p.devices) and p.devices[0].memory.l1.count == 40_000)
        before = memory(server)
        question = json_frame(Frame.QUERY, {"what": "snapshot", "detail": ["buffers"]})
        for _ in range(60):  # 4 MB each
            open_.enter_context(connected(server, MONITOR + question * 3))

        wait_until(lambda: "too many answers are unread" in server.log)
        assert client.ask()["l1_allocated"] == 40_000 * 64
        assert memory(server) - before < 100 * MIB
        open_.close()
        assert f"(uid {os.getuid()}): a connection was closed: too many answers" in limits(server)


def test_a_large_answer_that_is_read_comes_whole(server: RunningServer) -> None:
    count = 360_000  # 35 MB: more than may wait unread
    with ServerConnection(server.path, PATIENCE_S) as asking, OldClient(server.path) as client:
        record = [encode(144, Head(1, 0, 64, 1, os.getpid(), n)) for n in range(count)]
        client.socket.sendall(b"".join(record))
        server.sees(lambda p: bool(p.devices) and p.devices[0].memory.l1.count == count)

        for _ in range(2):
            _, attachments = asking.query("snapshot", detail=["buffers"])
            assert len(attachments["buffers"]) == count * 96
    assert "too many answers" not in limits(server)


def test_events_count_as_they_arrive_and_half_a_frame_holds_nothing(server: RunningServer) -> None:
    event = Event(Op.ALLOC, MemoryKind.DRAM, id=1, size=4096).pack()
    announced = frames.HEADER.pack(Frame.EVENTS, 4 * MIB)
    with connected(server, APPLICATION + announced + event + event[:10]):
        server.sees(lambda p: bool(p.devices) and p.devices[0].memory.dram.held == 4096)
    server.logs("the connection ended inside a frame")


def test_half_sent_frames_are_bounded_for_a_user(server: RunningServer) -> None:
    begun = frames.HEADER.pack(Frame.DEVICE, 256 << 10) + bytes(200 << 10)
    with ExitStack() as open_:
        all_ = [open_.enter_context(monitor(server)) for _ in range(60)]  # 12 MB
        for connection in all_:
            connection.sendall(begun)

        wait_until(lambda: "incomplete" in limits(server))
        refused, _, _ = select.select(all_, [], [], PATIENCE_S)
        kind, sentence = next_frame(refused[0])
        assert kind == Frame.REFUSED
        assert b"of incomplete frames" in sentence
        assert f"uid {os.getuid()}" in limits(server)


# ---- what the books keep ---------------------------------------------------------------------------------------

USES_DEVICES = (
    BECOME
    + """
client = OldClient(sys.argv[1])
for number in range(int(sys.argv[2]), int(sys.argv[3])): client.alloc(100, 1, 0, number)
"""
)


def dram(picture: Snapshot) -> int:
    return sum(device.memory.dram.held for device in picture.devices)


@needs_root
def test_one_user_cannot_take_all_devices(server: RunningServer, open_to_everybody: Share) -> None:
    path = open_to_everybody(server)
    with child(USES_DEVICES, path, "0", "200"), OldClient(server.path) as client:
        server.sees(lambda p: len(p.devices) == 64)
        for number in range(200, 300):
            client.alloc(1000, 1, 0, number)

        server.sees(lambda p: dram(p) == 64 * 100 + 100 * 1000)
        assert f"user {OTHER}: a device was left out: 64 is the limit per user" in limits(server)
        server.logs(f"user {OTHER} has 64 devices in use, which is the limit")


@needs_root
def test_the_unused_devices_of_a_user_are_dropped_for_its_next_ones(
    server: RunningServer, open_to_everybody: Share
) -> None:
    path = open_to_everybody(server)
    for first in (0, 50, 100):
        with child(USES_DEVICES, path, str(first), str(first + 50)):
            server.sees(lambda p: dram(p) == 5000)
        server.sees(lambda p: dram(p) == 0)
    assert limits(server) == ""


# ---- turns -----------------------------------------------------------------------------------------------------


def test_a_client_that_asks_without_end_does_not_delay_another(server: RunningServer) -> None:
    with monitor(server) as flood, monitor(server) as other:
        with stopped(server):
            flood.sendall(SNAPSHOT * 400)
            other.sendall(SNAPSHOT)

        answered = answered_at(other)
        flooded = [answered_at(flood) for _ in range(400)]
    earlier = sum(time_ns < answered for time_ns in flooded)
    assert earlier <= 40  # what fits into one turn, and no more


@needs_root
def test_a_user_with_many_connections_has_no_more_turns_than_one_with_few(
    server: RunningServer, open_to_everybody: Share
) -> None:
    path = open_to_everybody(server)
    code = """
import socket
from ttmem.wire import frames
from ttmem.wire.frames import Frame, json_frame
flood = frames.json_frame(Frame.QUERY, {"what": "snapshot"}) * 100
hello = frames.preamble() + json_frame(Frame.HELLO, {"role": "monitor"})
all = []
for _ in range(40):
    one = socket.socket(socket.AF_UNIX)
    one.connect(sys.argv[1])
    one.sendall(hello)
    all.append(one)
for one in all: one.recv(16)
print("go", flush=True); sys.stdin.readline()
for one in all: one.sendall(flood)
"""
    with child(BECOME + code, path, says="go") as other, monitor(server) as mine:
        with stopped(server):
            assert other.stdin is not None
            assert other.stdout is not None
            other.stdin.write("\n")
            other.stdin.flush()
            assert other.stdout.readline().strip() == "ready"
            mine.sendall(SNAPSHOT * 20)

        answered_at(mine)  # each of them comes, though 4,000 others were asked before
        times = [answered_at(mine) for _ in range(19)]
    assert times == sorted(times)


def test_a_signal_ends_it_before_all_that_was_asked_is_answered(server: RunningServer) -> None:
    with ExitStack() as open_:
        flood = [open_.enter_context(monitor(server)) for _ in range(50)]
        with stopped(server):
            for connection in flood:
                connection.sendall(SNAPSHOT * 400)
            server.process.send_signal(signal.SIGTERM)

        assert server.process.wait(PATIENCE_S) == 0
        answers = sum(_answers(connection) for connection in flood)
    assert answers < 50 * 20


def _answers(connection: socket.socket) -> int:
    data = b""
    while True:
        try:
            piece = connection.recv(1 << 16)
        except ConnectionResetError:
            piece = b""
        if not piece:
            return data.count(b'"schema"')
        data += piece


def test_a_signal_ends_it_while_sixteen_clients_report_as_fast_as_they_can(
    server: RunningServer,
) -> None:
    code = """
pair = [c for n in range(100) for c in ((1, 0, 64, 1, n), (2, 0, 0, 0, n))]
from ttmem.wire.historical import Head, encode
import os, threading
data = b"".join(encode(144, Head(k, d, s, w, os.getpid(), i)) for k, d, s, w, i in pair)
def flood():
    client = OldClient(sys.argv[1])
    while True: client.socket.sendall(data)
for _ in range(16): threading.Thread(target=flood, daemon=True).start()
"""
    with child(code, server.path):
        server.sees(lambda p: bool(p.devices))

        assert server.stop() == 0


# ---- dumps and the log -----------------------------------------------------------------------------------------


def test_a_dump_shows_what_a_person_can_read_and_counts_the_rest(server: RunningServer) -> None:
    with OldClient(server.path) as client:
        pid, many = os.getpid(), range(1, 30_001)
        loads = [encode(144, Head(Op.KERNEL_LOAD, 0, 4096 + n, 1, pid, n)) for n in many]
        allocs = [encode(144, Head(Op.ALLOC, 0, 4096 + n, 1, pid, n)) for n in many]
        client.socket.sendall(b"".join(loads + allocs))
        client.send(Message.DUMP_KERNELS)
        client.send(Message.DUMP_REMAINING)
        client.ask()

    wait_until(lambda: "Total: " in server.output)
    lines = server.output.splitlines()
    assert "Device 0: 30000 kernels" in lines
    assert "  L1: 30000 buffers, 546.355 MB total" in lines
    assert "  ... 29960 more" in lines
    assert "    ... 29990 more" in lines
    assert len(lines) < 70
    assert f"  - Fabric kernel {30_000:#x}: {34_096 / 1024:g} KB (PID {pid}" in server.output


ASKS_FOR_BUFFERS = (
    BECOME
    + """
import os
from ttmem.client.query import ServerConnection
with ServerConnection(sys.argv[1]) as connection:
    for limit in ({}, {"limit": 60_000}, {"limit": 7}):
        document, rows = connection.query("snapshot", detail=["buffers"], **limit)
        remarks = [one["text"] for one in document["snapshot"]["remarks"]]
        print(len(rows["buffers"]), any("50,000 largest" in text for text in remarks), flush=True)
"""
)


@needs_root
def test_another_user_gets_the_largest_entries_of_a_list_that_would_keep_everybody_waiting(
    server: RunningServer, open_to_everybody: Share
) -> None:
    path = open_to_everybody(server)
    with connected(server, APPLICATION) as client:
        allocs = [Event(Op.ALLOC, MemoryKind.L1, id=64 * n, size=64) for n in range(1, 50_011)]
        client.sendall(frames.frame(Frame.EVENTS, b"".join(alloc.pack() for alloc in allocs)))
        server.sees(lambda p: bool(p.devices) and p.devices[0].memory.l1.count == 50_010)
        with ServerConnection(server.path) as own:
            whole = len(own.query("snapshot", detail=["buffers"])[1]["buffers"])

        row = whole // 50_010
        with child(ASKS_FOR_BUFFERS, path, says=f"{50_000 * row} True") as other:
            assert other.stdout is not None
            assert other.stdout.readline().strip() == f"{50_000 * row} True"
            assert other.stdout.readline().strip() == f"{7 * row} True"
    assert f"user {OTHER} (uid {UID}): an answer has only the 50,000 largest" in limits(server)


def test_dumps_are_made_once_a_second_for_a_user(server: RunningServer) -> None:
    with OldClient(server.path) as client:
        client.alloc(4096, 1)
        client.ask()
        with stopped(server):
            for _ in range(50):
                client.send(Message.DUMP_KERNELS)
        client.ask()

        wait_until(lambda: "LOADED KERNELS" in server.output)
        assert server.output.count("LOADED KERNELS") < 50
        assert f"(uid {os.getuid()}): a dump was refused" in limits(server)


def test_an_unread_log_delays_nothing(start: StartServer) -> None:
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as late:
        server = start(stderr=writer)
        os.close(writer)
        with OldClient(server.path) as client:
            for device in range(200):
                client.alloc(4096, 1, device=device)
            assert client.ask()["l1_allocated"] == 4096
            for times in range(10):  # some 500 KB of summaries; a pipe holds 64 KiB
                server.process.send_signal(signal.SIGUSR1)
                client.alloc(4096, times + 2)
                assert client.ask()["l1_allocated"] == (times + 2) * 4096
        server.process.send_signal(signal.SIGTERM)

        assert server.process.wait(PATIENCE_S) == 0
        assert b"listens at" in late.readline()
