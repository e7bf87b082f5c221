"""Threads, forks, signals, finalizers and exits: nothing that an application does can hurt."""

from __future__ import annotations

import os
import signal
import threading

from tests.client import scripts
from tests.client.conftest import MakePeerProcess, Settle
from tests.client.peer import Peer
from tests.patience import PATIENCE_S, wait_until
from ttmem.client import AllocationClient, MemoryKind


def buffers(peer: Peer, pid: int) -> list[list[int]]:
    return (peer.picture(pid) or {}).get("buffers", [])


def test_many_threads_report_at_once_and_nothing_is_lost(
    client: AllocationClient, peer: Peer, settle: Settle
) -> None:
    def work(thread: int) -> None:
        for number in range(5000):
            client.report_allocation(thread, number, 64, MemoryKind.L1)
            if number % 5:
                client.report_deallocation(thread, number, MemoryKind.L1)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    settle()

    kept = [[thread, 1, number, 64, 1] for thread in range(8) for number in range(0, 5000, 5)]
    assert buffers(peer, os.getpid()) == kept
    assert client.stats().dropped == 0


def test_a_forked_child_starts_with_nothing_and_the_parent_goes_on(path: str, peer: Peer) -> None:
    program = """
tracker.track_allocate(Buffer(1, 64, MemoryKind.L1, 0))
flush()
child = os.fork()
number = 3 if child else 2
tracker.track_allocate(Buffer(number, 64, MemoryKind.L1, 0))
flush()
say(os.getpid())
if child:
    os.waitpid(child, 0)
    input()
else:
    time.sleep(0.2)
    os._exit(0)
"""
    process = scripts.start(program, path, PYTHONWARNINGS="ignore")  # of forks beside threads
    pids = {int(scripts.line(process)), int(scripts.line(process))}
    (child,) = pids - {process.pid}

    wait_until(lambda: buffers(peer, process.pid) == [[0, 1, 1, 64, 1], [0, 1, 3, 64, 1]])
    wait_until(lambda: buffers(peer, child) == [[0, 1, 2, 64, 1]])
    _, error = process.communicate("\n", timeout=PATIENCE_S)
    assert (process.returncode, error) == (0, "")


def test_forks_in_the_middle_of_reports_of_other_threads_hang_nobody(path: str, peer: Peer) -> None:
    program = """
stop = threading.Event()
def work(thread):
    number = 0
    while not stop.is_set():
        tracker.track_allocate(Buffer(number, 64, MemoryKind.L1, thread, site=f"line {number}"))
        number += 1
threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
for thread in threads:
    thread.start()
children = []
for _ in range(20):
    child = os.fork()
    if not child:
        tracker.track_allocate(Buffer(1, 64, MemoryKind.L1, 9))
        os._exit(0 if client.flush(100) else 1)
    children.append(child)
statuses = [os.waitpid(child, 0)[1] for child in children]
stop.set()
for thread in threads:
    thread.join()
tracker.track_allocate(Buffer(1, 64, MemoryKind.L1, 8))
flush()
say(statuses)
"""
    out, error = scripts.run(program, path, PYTHONWARNINGS="ignore")  # of forks beside threads

    assert (out.strip(), error) == (str([0] * 20), "")


def test_a_finalizer_may_report_whenever_it_runs(path: str, peer: Peer) -> None:
    program = """
import gc
import ttmem.client.outbox as outbox
outbox.ABSORB_AT, outbox.SLICE = 2, 4  # so that it runs in the middle of everything
gc.set_threshold(5)
class Tensor:
    def __init__(self, number):
        self.buffer = Buffer(number, 64, MemoryKind.L1, number % 4, site=f"line {number}")
        self.me = self  # only the garbage collector frees it
        tracker.track_allocate(self.buffer)
    def __del__(self):
        tracker.track_deallocate(self.buffer)
for number in range(20_000):
    Tensor(number)
gc.collect()
tracker.track_allocate(Buffer(1_000_000, 64, MemoryKind.L1, 0))
flush()
say("done")
input()
"""
    process = scripts.start(program, path)
    assert scripts.line(process) == "done"

    wait_until(lambda: buffers(peer, process.pid) == [[0, 1, 1_000_000, 64, 1]])
    _, error = process.communicate("\n", timeout=PATIENCE_S)
    assert error == ""


def test_the_default_sigpipe_kills_nobody_when_the_server_dies(
    path: str, make_peer_process: MakePeerProcess
) -> None:
    program = """
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
tracker.track_allocate(Buffer(1, 64, MemoryKind.L1, 0))
flush()
say("ready")
input()
while client.stats().queued < 50_000:
    tracker.track_allocate(Buffer(1, 64, MemoryKind.L1, 0))
say("in the middle of a send")
input()
while client.stats().connected:
    time.sleep(0.01)
say("alive")
"""
    peer = make_peer_process()
    process = scripts.start(program, path)
    assert scripts.line(process) == "ready"

    peer.send_signal(signal.SIGSTOP)
    scripts.go_on(process)
    assert scripts.line(process) == "in the middle of a send"
    peer.kill()
    out, _ = process.communicate("\n", timeout=PATIENCE_S)

    assert (process.returncode, out.strip()) == (0, "alive")


def test_what_is_queued_at_exit_is_sent(path: str, peer: Peer) -> None:
    program = """
tracker.track_allocate(Buffer(0, 64, MemoryKind.L1, 0))
flush()
for number in range(1, 3000):
    tracker.track_allocate(Buffer(number, 64, MemoryKind.L1, 0))
say(os.getpid())
"""
    out, error = scripts.run(program, path)

    wait_until(lambda: len(buffers(peer, int(out))) == 3000)
    assert error == ""


def test_exit_is_quick_and_quiet_whatever_the_server_does(
    path: str, make_peer_process: MakePeerProcess
) -> None:
    program = """
for number in range(3000):
    tracker.track_allocate(Buffer(number, 64, MemoryKind.L1, 0))
say(client.flush(0.2))
class Late:
    def __del__(self):
        tracker.track_deallocate(Buffer(1, 64, MemoryKind.L1, 0))
late = Late()
"""
    _, absent = scripts.run(program, path)
    peer = make_peer_process()
    connected, present = scripts.run(program, path)
    peer.send_signal(signal.SIGSTOP)
    waited, stopped = scripts.run(program, path)
    peer.send_signal(signal.SIGCONT)

    assert absent == f"ttmem: no server at {path}; start one with `ttmem serve --socket {path}`\n"
    assert (connected, present) == ("True\n", "")
    assert (waited, stopped) == ("False\n", "")


def test_a_sleeping_client_notices_a_new_server(path: str, peer: Peer) -> None:
    program = """
tracker.track_allocate(Buffer(1, 64, MemoryKind.L1, 0))
flush()
say("ready")
input()
"""
    process = scripts.start(program, path)
    assert scripts.line(process) == "ready"
    threading.Event().wait(0.3)  # now it rests
    wait_until(lambda: len(buffers(peer, process.pid)) == 1)

    peer.hang_up()

    wait_until(lambda: len(peer.sessions) == 2 and len(buffers(peer, process.pid)) == 1)
    process.communicate("\n", timeout=PATIENCE_S)
