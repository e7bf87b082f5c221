"""What a closed connection had sent still counts, and is handled in turns, so that nobody waits for all of it."""

from __future__ import annotations

from contextlib import suppress

from tests.server.harness import RunningServer, child
from tests.server.test_reporters import Reporter
from ttmem.client.query import ServerConnection
from ttmem.events import Event, Op
from ttmem.snapshots import Snapshot, from_json
from ttmem.wire.frames import Frame, frame

CONNECTIONS = 12
# Takes the server longest for its size, and fits into the buffer of a socket.
REFUSED = frame(Frame.DEVICE, b'{"logical_id":-1}')
BACKLOG = REFUSED * (150_000 // len(REFUSED))
LOAD = frame(Frame.EVENTS, Event(Op.KERNEL_LOAD, id=1, size=64, number=1).pack())
BUSY = """
from tests.server.test_backlogs import BACKLOG, CONNECTIONS, LOAD, Reporter
before = {"image": "before"}
reporters = [Reporter(sys.argv[1], reporter=f"r{n}", **before) for n in range(CONNECTIONS)]
for reporter in reporters:
    reporter.send(*ALLOC)
    reporter.socket.sendall(BACKLOG + LOAD)
"""
ALLOC = "Frame.EVENTS, Event(Op.ALLOC, MemoryKind.DRAM, id=1, size=4096).pack()"
OPENING = "from ttmem.events import Event, MemoryKind, Op; from ttmem.wire.frames import Frame\n"
CODE = OPENING + BUSY.replace("*ALLOC", ALLOC)


def asked(server: ServerConnection) -> Snapshot:
    answer, _ = server.query("snapshot")
    return from_json(answer["snapshot"])


def loads(picture: Snapshot) -> int:
    return sum(device.kernels.loads or 0 for device in picture.devices)


def held(picture: Snapshot) -> int:
    return sum(device.memory.dram.held for device in picture.devices)


def test_nobody_waits_until_all_that_a_dead_process_had_sent_is_handled(
    server: RunningServer,
) -> None:
    with ServerConnection(server.path) as monitor:
        with suppress(AssertionError), child(CODE + "import os; os._exit(0)", server.path):
            pass
        first = asked(monitor)

        last = server.sees(lambda p: loads(p) == CONNECTIONS and not p.processes)

    assert loads(first) < CONNECTIONS
    assert held(last) == 0
    assert server.logs(r"ended; released 48.0 KiB DRAM").count("ended; released") == 1


def test_nobody_waits_for_what_a_process_had_sent_before_it_ran_another_program(
    server: RunningServer,
) -> None:
    code = CODE + 'after = Reporter(sys.argv[1], reporter="other", image="after")\n'
    with ServerConnection(server.path) as monitor, child(code, server.path) as process:
        first = asked(monitor)

        last = server.sees(lambda p: loads(p) == CONNECTIONS and held(p) == 0)

    assert loads(first) < CONNECTIONS
    assert [each.pid for each in last.processes] == [process.pid]
    server.logs("runs another program now")


def test_what_a_reporter_sent_before_it_connected_again_is_handled_first(
    server: RunningServer,
) -> None:
    earlier = Reporter(server.path, reporter="one")
    other = Reporter(server.path, reporter="other")
    other.alloc(7, 1)
    earlier.socket.sendall(BACKLOG)
    earlier.alloc(5000, 1)
    later = Reporter(server.path, reporter="one")
    later.socket.sendall(BACKLOG)
    later.resync(b2=60)
    latest = Reporter(server.path, reporter="one")
    latest.alloc(70, 3)

    server.sees(lambda p: held(p) == 7 + 60 + 70)
    for each in (earlier, other, later, latest):
        each.socket.close()
