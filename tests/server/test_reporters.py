"""Several reporters in one process: each speaks for itself, and together they add up."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.client.scripts import start
from tests.patience import PATIENCE_S, wait_until
from tests.server.harness import OldClient, RunningServer, child
from ttmem.client import AllocationClient, MemoryKind
from ttmem.events import Event, Flag, Op
from ttmem.server.processes import MAX_REPORTERS
from ttmem.wire.frames import HEADER, Frame, frame, json_frame, preamble

MIB = 1 << 20


class Reporter:
    """A connection in ttmem's own framing, by hand."""

    def __init__(self, path: str, **hello: object) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(PATIENCE_S)
        self.socket.connect(path)
        self.socket.sendall(preamble() + json_frame(Frame.HELLO, hello))
        self.read(len(preamble()))
        self.answer = self.frame()

    def read(self, length: int) -> bytes:
        data = b""
        while len(data) < length:
            part = self.socket.recv(length - len(data))
            assert part, "the server closed the connection"
            data += part
        return data

    def frame(self) -> tuple[int, bytes]:
        kind, length = HEADER.unpack(self.read(HEADER.size))
        return kind, self.read(length)

    def send(self, kind: Frame, payload: bytes = b"") -> None:
        self.socket.sendall(frame(kind, payload))

    def alloc(self, size: int, id: int, flags: int = 0) -> None:
        self.send(Frame.EVENTS, Event(Op.ALLOC, MemoryKind.DRAM, flags, id=id, size=size).pack())

    def resync(self, **buffers: int) -> None:
        """All that it has, as id=size."""
        self.send(Frame.RESYNC_BEGIN)
        for name, size in buffers.items():
            self.alloc(size, int(name.strip("b")), Flag.RESENT)
        self.send(Frame.RESYNC_END)


Report = Callable[..., Reporter]


@pytest.fixture
def report(server: RunningServer) -> Iterator[Report]:
    """Connects a reporter, by its name if it has one."""
    made: list[Reporter] = []

    def make(name: object = None) -> Reporter:
        hello = {} if name is None else {"reporter": name}
        made.append(Reporter(server.path, role="application", **hello))
        return made[-1]

    yield make
    for reporter in made:
        reporter.socket.close()


@contextmanager
def clients(path: str, number: int = 2) -> Iterator[list[AllocationClient]]:
    made = [AllocationClient(path) for _ in range(number)]
    try:
        yield made
    finally:
        for client in made:
            client.close(0)


def dram(server: RunningServer, expected: int) -> None:
    """In the sum of the device and in that of the process, which is there once."""

    def right() -> bool:
        picture = server.picture()
        mine = [p for p in picture.processes if p.pid == os.getpid()]
        return (
            [device.memory.dram.held for device in picture.devices] == [expected]
            and [held.dram for process in mine for held in process.devices.values()] == [expected]
            and len(mine) == 1
        )

    wait_until(right)
    picture = server.picture()
    assert right(), (picture.processes, [d.memory.dram for d in picture.devices])


def test_two_clients_of_one_process_add_up(server: RunningServer) -> None:
    with clients(server.path) as (first, second):
        first.report_allocation(0, 1, 1000 * MIB)
        first.flush()
        dram(server, 1000 * MIB)
        second.report_allocation(0, 2, MIB)
        second.flush()

        dram(server, 1001 * MIB)


def test_two_clients_may_use_the_same_id(server: RunningServer) -> None:
    with clients(server.path) as (first, second):
        first.report_allocation(0, 7, 10 * MIB)
        second.report_allocation(0, 7, MIB)
        dram(server, 11 * MIB)
        second.report_deallocation(0, 7)

        dram(server, 10 * MIB)


def test_an_original_client_and_a_new_one_in_one_process_add_up(server: RunningServer) -> None:
    with OldClient(server.path) as old, clients(server.path, 1) as (new,):
        old.alloc(1000 * MIB, 1, MemoryKind.DRAM)
        old.ask()
        new.report_allocation(0, 2, MIB)

        dram(server, 1001 * MIB)


def test_a_client_that_closes_takes_nothing_away_from_another(server: RunningServer) -> None:
    with clients(server.path) as (first, second):
        first.report_allocation(0, 1, 10 * MIB)
        second.report_allocation(0, 2, MIB)
        dram(server, 11 * MIB)

        first.close(1)
        second.report_allocation(0, 3, MIB)

        dram(server, 12 * MIB)
        assert server.picture().processes[0].connected


def test_a_reporter_that_reconnects_replaces_its_own_reports(
    server: RunningServer, report: Report
) -> None:
    with clients(server.path, 1) as (other,):
        other.report_allocation(0, 1, 10 * MIB)
        before = report("a")
        before.alloc(5 * MIB, 2)
        dram(server, 15 * MIB)
        before.socket.close()
        again = report("a")
        again.resync(b3=MIB)

        dram(server, 11 * MIB)


def test_what_the_earlier_connection_of_a_reporter_still_holds_comes_first(
    server: RunningServer,
    report: Report,
) -> None:
    before = report("a")
    before.alloc(5 * MIB, 2)
    dram(server, 5 * MIB)
    again = report("a")
    again.resync(b3=MIB)

    dram(server, MIB)
    assert before.socket.recv(1) == b""


def test_clients_that_do_not_name_themselves_add_up_and_come_again(
    server: RunningServer, report: Report
) -> None:
    first, second = (report() for _ in range(2))
    first.resync(b1=10 * MIB)
    second.resync(b2=MIB)
    dram(server, 11 * MIB)

    second.socket.close()
    again = report()
    again.resync(b2=2 * MIB)

    dram(server, 12 * MIB)


def test_a_resync_of_one_client_leaves_the_other_alone(
    server: RunningServer, report: Report
) -> None:
    one, other = (report(name) for name in "ab")
    one.alloc(10 * MIB, 1)
    other.alloc(MIB, 1)
    dram(server, 11 * MIB)
    other.resync(b1=2 * MIB)

    dram(server, 12 * MIB)


def test_when_the_process_dies_all_reports_of_its_reporters_are_released(
    server: RunningServer,
) -> None:
    code = """
    from ttmem.client import AllocationClient
    old = OldClient(sys.argv[1])
    old.alloc(100, 1, 0)
    clients = [AllocationClient(sys.argv[1]) for _ in range(2)]
    for client in clients:
        client.report_allocation(0, 1, 1000)
        assert client.flush(10)
    clients[0].close()
    """
    with child(code, server.path) as process:
        server.sees(lambda p: [d.memory.dram.held for d in p.devices] == [2100])
        process.kill()
        picture = server.sees(lambda p: not p.processes)

    assert picture.devices[0].memory.dram.held == 0
    assert [sum(held.dram for held in left.devices.values()) for left in picture.left_behind] == [
        2100
    ]


def test_call_sites_of_two_clients_do_not_mix(server: RunningServer) -> None:
    with clients(server.path) as (first, second):
        first.report_allocation(0, 1, 10, site="a.py:1")
        second.report_allocation(0, 2, 20, site="b.py:2")
        dram(server, 30)

        sites = {b.requested: b.site for b in (server.picture("buffers").buffers or ())}
        assert sites == {10: "a.py:1", 20: "b.py:2"}


def test_what_a_program_held_is_gone_when_its_process_begins_another(
    server: RunningServer, tmp_path: Path
) -> None:
    code = """
size = int(os.environ.get("SIZE", "5000"))
tracker.track_allocate(Buffer(1, size, MemoryKind.DRAM, 0))
flush()
say("ready")
input()
if size == 5000:
    os.environ["SIZE"] = "70"
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
"""
    process = start(code, server.path)
    try:
        server.sees(lambda p: [d.memory.dram.held for d in p.devices] == [5000])
        assert process.stdin is not None
        print(file=process.stdin, flush=True)

        picture = server.sees(lambda p: [d.memory.dram.held for d in p.devices] == [70])
        assert [process.pid for process in picture.processes] == [process.pid]
    finally:
        process.kill()
        process.communicate()


def test_reporters_that_leave_nothing_behind_take_no_space(
    server: RunningServer, report: Report
) -> None:
    keeper = report("keeper")
    keeper.alloc(MIB, 1)
    for number in range(MAX_REPORTERS + 10):
        reporter = report(f"r{number}")
        assert reporter.answer[0] == Frame.WELCOME
        reporter.socket.close()

    dram(server, MIB)


def test_a_process_with_too_many_reporters_is_told_so(
    server: RunningServer, report: Report
) -> None:
    made = [report(f"r{number}") for number in range(MAX_REPORTERS)]
    more = report("one more")

    assert more.answer[0] == Frame.REFUSED
    assert f"has {MAX_REPORTERS} reporters" in more.answer[1].decode()
    made[0].alloc(MIB, 1)
    dram(server, MIB)


@pytest.mark.parametrize("name", ["", 7, "x" * 65, "a\nb"])
def test_a_reporter_with_an_impossible_name_is_refused(
    server: RunningServer, report: Report, name: object
) -> None:
    refused = report(name)

    assert refused.answer[0] == Frame.REFUSED
    assert b"reporter must be a short printable text" in refused.answer[1]
