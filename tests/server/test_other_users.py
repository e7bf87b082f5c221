"""What one account does to a shared server changes nothing for another one."""

from __future__ import annotations

import json
import pwd

import pytest

from tests.other_user import OTHER, needs_root
from tests.server.conftest import Share
from tests.server.harness import RunningServer, child
from ttmem.server.log import LINES
from ttmem.snapshots import Snapshot

pytestmark = needs_root
UID = pwd.getpwnam(OTHER).pw_uid
VICTIM = 54321  # an account without a name

CLIENT = """
import json, os, socket, sys, time
from ttmem.events import Event, MemoryKind, Op
from ttmem.wire import frames
from ttmem.wire.frames import Frame, json_frame

def become(uid):
    os.setgroups([]); os.setgid(65534); os.setuid(uid)

def connected():
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(sys.argv[1])
    connection.sendall(frames.preamble() + json_frame(Frame.HELLO, {"reporter": "r"}))
    return connection

def device(**told):
    return json_frame(Frame.DEVICE, told)

def held(size):
    return frames.frame(Frame.EVENTS, Event(Op.ALLOC, MemoryKind.DRAM, device=0, id=1, size=size).pack())
"""


DECLARES = (
    CLIENT
    + """
become(int(sys.argv[2]))
connection = connected()
connection.sendall(device(**json.loads(sys.argv[3])) + (held(6 << 30) if sys.argv[4:] else b""))
"""
)
REAL = {
    "logical_id": 0, "unique_id": "9698029722847477907", "board": "n150", "pci": "0000:01:00.0",
    "dram_banks": 12, "dram_bank_size": 1 << 30, "l1_banks": 64, "l1_capacity": 64 << 20,
}  # fmt: skip
FALSE = {
    "logical_id": 7,
    "board": "p150",
    "pci": "0000:99:00.0",
    "dram_banks": 4096,
    "l1_capacity": 1,
}


def test_another_users_device_keeps_its_identity_and_its_capacity(
    server: RunningServer, open_to_everybody: Share
) -> None:
    path = open_to_everybody(server)

    def facts(picture: Snapshot) -> list[tuple[object, ...]]:
        return [
            (d.logical_id, d.board, d.pci, d.memory.dram.capacity, d.l1_capacity)
            for d in picture.devices
        ]

    expected = [(0, "n150", "0000:01:00.0", 12 << 30, 64 << 20)]
    with child(DECLARES, path, str(VICTIM), json.dumps(REAL), "holds"):
        server.sees(lambda p: facts(p) == expected)
        with child(DECLARES, path, str(UID), json.dumps(REAL | FALSE)) as attacker:
            picture = server.sees(
                lambda p: any(a.kind == "declaration" for d in p.devices for a in d.anomalies)
            )
            assert facts(picture) == expected
            (anomaly,) = picture.devices[0].anomalies
            assert anomaly.pid == attacker.pid
            assert f"user {OTHER}" in anomaly.text
        server.sees(lambda p: not p.devices[0].anomalies and facts(p) == expected)
    server.sees(lambda p: not p.processes and facts(p) == expected)


# ---- the log ---------------------------------------------------------------------------------------------------

FLOODS = {
    "impossible numbers": """
connection = connected()
for first in range(0, 5_000, 500):
    connection.sendall(b"".join(device(logical_id=1_000_000 + first + n) for n in range(500)))
""",
    "long frames": """
for n in range(400):
    connected().sendall(frames.HEADER.pack(Frame.DEVICE, 0x80000000 + n))
""",
    "processes that end": """
for n in range(200):
    child = os.fork()
    if not child:
        connected().sendall(device(logical_id=1) + held(1 << 20))
        os._exit(0)
    os.waitpid(child, 0)
""",
}


@pytest.mark.parametrize("flood", FLOODS)
def test_another_user_cannot_fill_the_log(
    server: RunningServer, open_to_everybody: Share, flood: str
) -> None:
    path = open_to_everybody(server)
    lines = len(server.log.splitlines())

    with child(CLIENT + f"become({UID})\n" + FLOODS[flood], path):
        with child(DECLARES, path, "0", json.dumps(REAL), "holds") as honest:
            server.sees(lambda p: any(each.pid == honest.pid for each in p.processes))
        server.logs(f"pid {honest.pid} .* ended; released")  # root's own lines stay
    server.stop()

    assert len(server.log.splitlines()) - lines < LINES + 10
    if flood == "processes that end":  # the others repeat one problem
        server.logs(rf"[\d,]+ more lines about processes of user {OTHER} were left out")


def test_values_that_a_client_chooses_make_no_new_problem(
    server: RunningServer, open_to_everybody: Share
) -> None:
    path = open_to_everybody(server)
    flood = FLOODS["impossible numbers"]
    with child(CLIENT + flood, path) as root:
        server.logs(rf"pid {root.pid}, .*logical id .* \(1000 times\)")
    server.stop()

    assert server.log.count("declaration declined") == 4  # the 1st, 10th, 100th and 1,000th
