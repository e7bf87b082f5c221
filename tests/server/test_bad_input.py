"""Whatever arrives: a clear log line, nothing lost or misread, everyone else undisturbed."""

from __future__ import annotations

import os
import random
import socket
import struct
import subprocess
from pathlib import Path

import pytest

from tests.patience import wait_until
from tests.server.conftest import StartServer
from tests.server.harness import OldClient, RunningServer, child
from ttmem.events import Event, MemoryKind, Op
from ttmem.ledger.accounts import MOST_EVENTS
from ttmem.wire import frames
from ttmem.wire.frames import MAX_RECTANGLES, Frame
from ttmem.wire.historical import Head, Message, encode

ROOT = os.geteuid() == 0
NOBODY = 65534


def raw(path: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(20)
    connection.connect(path)
    return connection


def read_all(connection: socket.socket) -> bytes:
    data = b""
    while piece := connection.recv(65536):
        data += piece
    return data


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        (Head(Op.ALLOC, -1, 4096, 1), "event on device -1 rejected: ids go from 0 to 1023"),
        (Head(Op.ALLOC, 2**31 - 1, 4096, 1), "event on device 2147483647 rejected"),
        (Head(Op.ALLOC, 0, 0, 1), "ALLOC on device 0 of 0 bytes rejected: its size is 0"),
        (Head(Op.ALLOC, 0, 2**63, 1), "rejected: its size is larger than 1 TiB"),
        (Head(Op.ALLOC, 0, 4096, 9), "rejected: its kind is unknown"),
        (Head(Op.KERNEL_LOAD, 0, 0, 0), "the size of the binary is expected"),
        (Head(Op.CB_ALLOC, 0, 0, 0), "CB_ALLOC on device 0 of 0 bytes rejected"),
        (Head(77, 0, 4096, 0), "message type 77 is unknown"),
    ],
)
def test_an_impossible_record_is_named_and_the_next_one_counts(
    server: RunningServer, message: Head, sentence: str
) -> None:
    with OldClient(server.path) as client:
        client.alloc(100, 1)
        client.socket.sendall(encode(144, message))
        client.alloc(200, 2)
        answer = client.ask()

        assert answer["l1_allocated"] == 300
        assert server.picture().losses.rejected_records == 1
        server.logs(sentence)


def test_a_record_split_over_two_packets_counts_once(server: RunningServer) -> None:
    with OldClient(server.path) as client:
        client.alloc(100, 1)
        client.alloc(100, 2)
        record = encode(144, Head(Op.ALLOC, 0, 4096, 1, os.getpid(), 3))
        client.socket.sendall(record[:50])
        wait_until(lambda: server.picture().devices)  # the first half is surely in
        client.socket.sendall(record[50:])

        assert client.ask()["l1_allocated"] == 4296


def test_a_message_of_the_instrumented_helpers_is_named_while_its_connection_is_open(
    server: RunningServer,
) -> None:
    message = struct.pack("<B3xiQQi4x", Op.CB_ALLOC, 0, 4096, 3, os.getpid())
    with raw(server.path) as connection:
        connection.sendall(message)
        server.logs("32-byte messages of instrumented_helpers.hpp are skipped")

        connection.sendall(message * 9)  # a closed connection would end this process
        server.sees(lambda p: p.losses.rejected_records == 10)
    assert server.picture().devices == ()


def test_a_truncated_record_is_dropped_with_a_line(server: RunningServer) -> None:
    with OldClient(server.path) as client:
        client.alloc(100, 1)
        client.socket.sendall(encode(144, Head(Op.ALLOC, 0, 4096, 1, os.getpid(), 3))[:90])
    server.logs("ended inside a record: 90 bytes dropped")

    assert server.picture().losses.rejected_records == 1


def test_a_client_that_asks_and_closes_at_once_does_no_harm(server: RunningServer) -> None:
    for _ in range(20):
        with OldClient(server.path) as client:
            client.send(Message.QUERY)
    with OldClient(server.path) as client:
        assert client.ask()["l1_allocated"] == 0
    assert server.alive


def test_random_bytes_on_hundreds_of_connections_do_no_harm(server: RunningServer) -> None:
    noise = random.Random(1)
    with OldClient(server.path) as client:
        client.alloc(4096, 1)
        for _ in range(300):
            with raw(server.path) as connection:
                try:
                    connection.sendall(noise.randbytes(noise.randrange(1, 2000)))
                except BrokenPipeError:
                    pass  # dropped at the first bytes
        assert client.ask()["l1_allocated"] == 4096
    server.logs("these bytes are not allocation messages")


def test_five_hundred_connections_at_once_are_all_served(server: RunningServer) -> None:
    clients = [OldClient(server.path) for _ in range(500)]
    for number, client in enumerate(clients):
        client.alloc(4096, number + 1)
        client.send(Message.QUERY)
    totals = [client.answer()["l1_allocated"] for client in clients]

    assert max(totals) == 500 * 4096
    for client in clients:
        client.socket.close()


def test_a_silent_client_disturbs_no_other(server: RunningServer) -> None:
    silent = raw(server.path)
    with OldClient(server.path) as client:
        client.alloc(4096, 1)
        assert client.ask()["l1_allocated"] == 4096
    silent.close()


def test_a_client_that_never_reads_its_answers_waits_for_itself(server: RunningServer) -> None:
    deaf = raw(server.path)
    deaf.setblocking(False)
    question = encode(144, Head(Message.QUERY, 0, 0, 0, os.getpid())) * 400
    sent = 0
    try:
        while sent < 64 << 20:
            sent += deaf.send(question)
    except BlockingIOError:
        pass  # the server stopped reading: as it should

    assert sent < 64 << 20
    with OldClient(server.path) as client:
        client.alloc(4096, 1)
        assert client.ask()["l1_allocated"] == 4096
    memory_kib = int(Path(f"/proc/{server.process.pid}/statm").read_text().split()[1]) * 4
    assert memory_kib < 200 << 10
    deaf.close()


def test_a_flood_of_new_ids_is_bounded_and_counted(start: StartServer) -> None:
    server = start("--max-live", "1000")
    with OldClient(server.path) as client:
        pid = os.getpid()
        client.socket.sendall(b"".join(encode(144, Head(1, 0, 64, 1, pid, n)) for n in range(5000)))
        assert client.ask()["l1_allocated"] == 64_000

        picture = server.picture()
        assert picture.losses.dropped_events == 4000
        (anomaly,) = picture.devices[0].anomalies
        assert (anomaly.kind, anomaly.bytes) == ("table_full", 4000 * 64)


def test_a_message_claiming_another_pid_counts_for_its_sender(server: RunningServer) -> None:
    with OldClient(server.path) as client:
        client.send(Op.ALLOC, 0, 4096, 1, 1, pid=1)
        client.send(Op.ALLOC, 0, 4096, 1, 2, pid=1)
        client.ask()

        assert [p.pid for p in server.picture().processes] == [os.getpid()]
        assert server.logs("messages name pid 1").count("messages name pid 1") == 1


def test_zeros_and_half_a_hello_are_refused(server: RunningServer) -> None:
    with raw(server.path) as connection:
        connection.sendall(bytes(500))
        assert connection.recv(1) == b""
    with raw(server.path) as connection:
        connection.sendall(b"TTMEX" + bytes(20))
        assert b"not a ttmem stream" in read_all(connection)


@pytest.mark.parametrize("version", [0, 2, 9999])
def test_another_version_of_ttmem_is_refused_with_a_sentence_on_both_sides(
    server: RunningServer, version: int
) -> None:
    with raw(server.path) as connection:
        connection.sendall(frames.preamble(version) + frames.json_frame(Frame.HELLO, {"pid": 1}))
        answer = read_all(connection)

    sentence = (
        f"this client speaks version {version} of ttmem's protocol, this server speaks version 1"
    )
    assert answer.startswith(frames.preamble())
    assert sentence in answer.decode("utf-8", "replace")
    server.logs(sentence)


@pytest.mark.parametrize(
    ("stream", "sentence"),
    [
        (frames.frame(Frame.EVENTS, Event(Op.ALLOC, size=1).pack()), "EVENTS came before HELLO"),
        (frames.json_frame(Frame.HELLO, []), "a payload is not a JSON object"),
        (frames.frame(Frame.HELLO, b"{" * 100_000), "a payload is not a JSON object"),
        (frames.HEADER.pack(7, 1 << 31), "longer than the limit"),
        (frames.HEADER.pack(999, 0), "frame type 999 is unknown"),
    ],
)
def test_a_frame_that_cannot_be_is_refused_with_a_sentence(
    server: RunningServer, stream: bytes, sentence: str
) -> None:
    with raw(server.path) as connection:
        connection.sendall(frames.preamble() + stream)
        assert sentence in read_all(connection).decode("utf-8", "replace")
    server.logs(sentence)


@pytest.mark.parametrize(
    ("stream", "sentence"),
    [
        (frames.frame(Frame.EVENTS, bytes(63)), "not a whole number of events"),
        (frames.cores_frame(1, ((0, 0, 40, 0),)), "not inside a 32 x 32 grid"),
        (frames.frame(Frame.STRING, b"ab"), "too short or too long"),
        (frames.frame(Frame.WELCOME), "only servers send WELCOME"),
        (frames.json_frame(Frame.HELLO, {}), "HELLO came twice"),
    ],
)
def test_a_known_client_that_sends_nonsense_is_refused_with_a_sentence(
    server: RunningServer, stream: bytes, sentence: str
) -> None:
    with raw(server.path) as connection:
        connection.sendall(
            frames.preamble() + frames.json_frame(Frame.HELLO, {"role": "monitor"}) + stream
        )
        assert sentence in read_all(connection).decode("utf-8", "replace")
    server.logs(sentence)


@pytest.mark.parametrize(
    ("declaration", "sentence"),
    [
        ({"board": "p150"}, "needs logical_id"),
        ({"logical_id": 0, "l1_banks": "many"}, "l1_banks must be a whole number"),
        ({"logical_id": 5000}, "above 1023"),
    ],
)
def test_a_declaration_that_makes_no_sense_is_declined_and_the_connection_stays(
    server: RunningServer, declaration: dict[str, object], sentence: str
) -> None:
    with raw(server.path) as connection:
        connection.sendall(
            frames.preamble()
            + frames.json_frame(Frame.HELLO, {"role": "application", "hears": True})
            + frames.json_frame(Frame.DEVICE, declaration)
            + frames.json_frame(Frame.QUERY, {"what": "snapshot"})
        )
        answer = b""
        while b'"schema"' not in answer:
            piece = connection.recv(1 << 16)
            assert piece, "the server closed the connection"
            answer += piece
    assert sentence in answer.decode("utf-8", "replace")
    server.logs(f"declaration declined: .*{sentence}")


@pytest.mark.skipif(not ROOT, reason="needs root, to be two users")
def test_a_live_process_of_another_user_is_not_taken_for_dead(
    start: StartServer, tmp_path: Path
) -> None:
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_mode & 0o777 == 0o700:  # those that pytest has made
            folder.chmod(0o1777)
    server = start(user=NOBODY)
    with child(
        "OldClient(sys.argv[1]).alloc(4096, 1)\nclient = OldClient(sys.argv[1])", server.path
    ):
        server.sees(lambda p: bool(p.devices) and p.devices[0].l1_used == 4096)
        wait_until(lambda: len(server.picture("history").history or {}) and _ticks(server) >= 3)

        assert server.device().l1_used == 4096


def _ticks(server: RunningServer) -> int:
    history = server.picture("history").history or {}
    return max(len(columns.time_ns) for columns in history.values())


@pytest.mark.skipif(not ROOT, reason="needs root, to make a pid namespace")
def test_a_process_in_a_container_is_known_by_its_outer_pid(server: RunningServer) -> None:
    unshare = ("unshare", "--pid", "--fork", "--kill-child")
    if subprocess.run([*unshare, "true"], check=False).returncode:
        pytest.skip("pid namespaces are not allowed here")
    code = """
        import os
        assert os.getpid() == 1
        client = OldClient(sys.argv[1])
        client.alloc(4096, 1)
        client.alloc(4096, 2)
    """
    with child(code, server.path, prefix=unshare):
        picture = server.sees(lambda p: bool(p.devices) and p.devices[0].l1_used == 8192)
        assert picture.processes[0].pid > 1
        server.logs("messages name pid 1, the sender is pid")

    server.sees(lambda p: p.devices[0].l1_used == 0)


@pytest.mark.parametrize("pid", [True, -5, 0, 1 << 65, "7", 1.5])
def test_a_pid_in_a_container_that_is_none_is_ignored(server: RunningServer, pid: object) -> None:
    with raw(server.path) as connection:
        hello = {"role": "application", "container_pid": pid}
        event = Event(Op.ALLOC, MemoryKind.DRAM, id=1, size=64)
        connection.sendall(
            frames.preamble()
            + frames.json_frame(Frame.HELLO, hello)
            + frames.frame(Frame.EVENTS, event.pack())
        )
        (process,) = server.sees(lambda snapshot: bool(snapshot.processes)).processes
    assert process.container_pid is None


def test_a_client_cannot_have_lost_more_events_than_it_had_time_for(server: RunningServer) -> None:
    hello = frames.preamble() + frames.json_frame(Frame.HELLO, {})
    with raw(server.path) as connection:
        connection.sendall(hello + frames.frame(Frame.LOST, frames.LOST.pack(2**64 - 1, 2**64 - 1)))
        picture = server.sees(lambda p: any(each.dropped_events for each in p.processes))

    (process,) = picture.processes
    year = 365 * 86_400
    assert 0 < process.dropped_events < year * MOST_EVENTS
    assert 0 < process.overflow < year * MOST_EVENTS


def test_a_core_set_names_each_core_at_most_once(server: RunningServer) -> None:
    hello = frames.preamble() + frames.json_frame(Frame.HELLO, {})
    most, more = (((0, 0, 31, 31),) * count for count in (MAX_RECTANGLES, MAX_RECTANGLES + 1))
    with raw(server.path) as connection:
        connection.sendall(hello + frames.cores_frame(1, most) + frames.cores_frame(2, more))
        refusal = read_all(connection).decode("utf-8", "replace")

    assert "a core set has at most 1,024 rectangles" in refusal
