"""A process connects and ends, its socket lives on in another one, and its pid goes to a stranger."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from tests.container import NAMESPACES, ROOT, in_container, needs_namespaces
from tests.own_process import ran
from tests.patience import PATIENCE_S

MIB = 1 << 20

# The kernel of a pid namespace gives out the number after that in ns_last_pid. Whether the new owner of the pid reports
# before the held socket speaks is the argument.
SCRIPT = """
import json, os, socket, subprocess, sys
from contextlib import suppress
from pathlib import Path
from tests.server.harness import RunningServer
from ttmem.client import MemoryKind
from ttmem.events import Event, Flag, Op
from ttmem.wire.frames import Frame, frame, json_frame, preamble

MIB = 1 << 20
VICTIM = '''
import sys
from tests.server.test_reporters import Reporter
if sys.argv[2] == "reports":
    own = Reporter(sys.argv[1], role="application", reporter="main")
    own.resync(b1=1 << 20)
print("ready", flush=True)
sys.stdin.read()
'''
folder, what = Path(sys.argv[1]), sys.argv[2]
server = RunningServer(folder, "--no-shm").wait_ready()
held = socket.socket(socket.AF_UNIX)
first = os.fork()
if first == 0:
    held.connect(server.path)
    os._exit(0)
os.waitpid(first, 0)
Path("/proc/sys/kernel/ns_last_pid").write_text(str(first - 1))
victim = subprocess.Popen(
    [sys.executable, "-c", VICTIM, server.path, what, "a-secret-argument"],
    stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
)
assert victim.pid == first
assert victim.stdout.readline() == "ready\\n"
if what == "reports":
    server.sees(lambda snapshot: any(d.memory.dram.requested == MIB for d in snapshot.devices))
event = Event(Op.ALLOC, MemoryKind.DRAM, Flag.RESENT, id=2, size=64 * MIB)
stream = preamble() + json_frame(Frame.HELLO, {"role": "application", "reporter": "main"})
stream += frame(Frame.RESYNC_BEGIN) + frame(Frame.EVENTS, event.pack()) + frame(Frame.RESYNC_END)
held.sendall(stream)
with suppress(ConnectionResetError):
    while held.recv(1 << 16):  # until the server closes the connection of a dead process
        pass
snapshot = server.sees(lambda snapshot: len(snapshot.processes) == (what == "reports"))
print(json.dumps({
    "pid": victim.pid,
    "processes": [[p.pid, p.command, sum(a.dram or 0 for a in p.devices.values())] for p in snapshot.processes],
    "left_behind": [[each.pid, each.command] for each in snapshot.left_behind],
    "log": server.log,
}))
server.kill()
victim.kill()
"""


@pytest.mark.parametrize("what", ["reports", "is silent"])
def test_the_socket_of_a_dead_process_does_not_speak_for_the_next_owner_of_its_pid(
    tmp_path: Path, what: str
) -> None:
    needs_namespaces()

    done = ran(
        in_container(
            sys.executable, "-c", SCRIPT, str(tmp_path), what, shm="", namespaces=NAMESPACES
        ),
        cwd=ROOT,
        env=dict(os.environ),
        timeout=2 * PATIENCE_S,
    )

    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert [held for _, _, held in seen["processes"]] == ([MIB] if what == "reports" else [])
    assert {(pid, command) for pid, command in seen["left_behind"]} <= {(seen["pid"], None)}
    assert "a-secret-argument" not in seen["log"]
