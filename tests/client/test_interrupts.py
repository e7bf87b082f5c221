"""Signals, and calls that find no thread, no file, or no sense in their arguments."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from tests.client import scripts
from tests.client.conftest import MakePeerProcess
from tests.client.peer import Peer
from tests.patience import wait_until
from ttmem.client import AllocationClient, Buffer, GraphTracker, MemoryKind

# Raises in the middle of reports, a thousand times a second, and lists the ids whose report it ended.
INTERRUPTED = """
import json
EVENTS = 60_000
class Interrupt(Exception): pass
armed, unsure = False, []
def handler(*_):
    global armed
    if armed:
        armed = False
        raise Interrupt
signal.signal(signal.SIGALRM, handler)
mesh = MeshDevice(range(4)) if arguments else 0
tracker.track_allocate(Buffer(0, 64, MemoryKind.L1, mesh))
flush()
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
for number in range(1, EVENTS):
    buffer = Buffer(number, 64, MemoryKind.L1, mesh)
    try:
        armed = True
        tracker.track_allocate(buffer)
        armed = False
    except Interrupt:
        unsure.append(number)
signal.setitimer(signal.ITIMER_REAL, 0)
client.report_cache_entries(0xFFFF, 1)
flush()
say(json.dumps([unsure, client.stats().dropped]))
input()
"""


@pytest.mark.parametrize("mesh", [(), ("mesh",)])
def test_signals_in_the_middle_of_reports_lose_nothing(
    path: str, make_peer_process: MakePeerProcess, mesh: tuple[str, ...]
) -> None:
    peer = make_peer_process()
    process = scripts.start(INTERRUPTED, path, *mesh)
    unsure, dropped = json.loads(scripts.line(process))
    assert unsure
    wait_until(lambda: peer.fact("marker", process.pid) == 1)
    told = peer.picture(process.pid)["buffers"]
    lost = peer.fact("lost", process.pid)
    process.communicate("\n", timeout=20)

    devices = range(4) if mesh else range(1)
    by_device = {d: {number for device, _, number, _, _ in told if device == d} for d in devices}
    sure = set(range(60_000)) - set(unsure)
    assert all(by_device[device] >= sure for device in devices)
    assert all(by_device[device] == by_device[0] for device in devices)
    assert dropped == lost[0] == 0


def test_without_a_file_descriptor_the_tracker_starts_later_and_says_so_once(
    path: str, peer: Peer
) -> None:
    program = """
import resource
from ttmem.client import GraphTracker as Tracker
def exhaust():
    taken = []
    try:
        while True:
            taken.append(os.open("/dev/null", os.O_RDONLY))
    except OSError:
        return taken
Tracker._instance = None
resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
taken = exhaust()
tracker = Tracker.instance()
for number in range(3000):
    tracker.track_allocate(Buffer(number, 64, MemoryKind.L1, 0))
assert not tracker.client.flush(0.5)
for file in taken:
    os.close(file)
assert tracker.client.flush(20)
say("told")
input()
"""
    process = scripts.start(program, path)
    assert scripts.line(process) == "told"

    wait_until(lambda: len((peer.picture(process.pid) or {}).get("buffers", [])) == 3000)
    _, error = process.communicate("\n", timeout=20)
    assert error == f"ttmem: no file can be opened to reach {path}: Too many open files\n"


def test_without_a_thread_the_tracker_starts_later_and_says_so_once(path: str, peer: Peer) -> None:
    program = """
import resource
hard = resource.getrlimit(resource.RLIMIT_AS)[1]
mapped = int(open("/proc/self/statm").read().split()[0]) * os.sysconf("SC_PAGESIZE")
threading.stack_size(256 << 20)
resource.setrlimit(resource.RLIMIT_AS, (mapped + (128 << 20), hard))
for number in range(5000):
    tracker.track_allocate(Buffer(number, 64, MemoryKind.L1, 0))
assert not client.flush(0.1)
client_without_thread = AllocationClient(path)
client_without_thread.report_allocation(0, 1, 64)
client_without_thread.close()
resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
deadline = time.monotonic() + 20
while not client.stats().connected and time.monotonic() < deadline:
    tracker.track_allocate(Buffer(0, 64, MemoryKind.L1, 0))
    time.sleep(0.01)
flush()
say("told")
input()
"""
    process = scripts.start(program, path)
    assert scripts.line(process) == "told", process.communicate(timeout=10)

    wait_until(lambda: len((peer.picture(process.pid) or {}).get("buffers", [])) == 5000)
    _, error = process.communicate("\n", timeout=20)
    warning = "ttmem: no thread to report from can be started yet: can't start new thread\n"
    assert error == 2 * warning  # of either client once


WRONG: list[Any] = [None, [], {}, -1, 1 << 70, 1.5, "x", [{"a": 1, "b": 2}], object()]
CALLS: dict[str, tuple[Any, ...]] = {
    "report_allocation": (0, 1, 64, MemoryKind.L1, 0, 0, "line"),
    "report_deallocation": (0, 1, MemoryKind.L1, 64),
    "report_cb_allocation": (0, 1, 64, None, False, 1, False),
    "report_cb_deallocation": (0, 1, 64, None, 1, False),
    "report_kernel_load": (0, 1, 64, 0, 1, 1, "name", 0, None),
    "report_kernel_unload": (0, 1),
    "report_program_dispatch": (0, 1, None, None),
    "report_program_destroy": (0, 1),
    "report_binary_status": (0, 1, 0),
    "report_ring": (0, 1, 0, 0, 0, 0),
    "report_cache_entries": (0, 1),
    "declare_device": (0,),
}


@pytest.mark.parametrize("call", CALLS)
def test_no_report_raises_whatever_it_is_given(client: AllocationClient, call: str) -> None:
    for place, wrong in itertools.product(range(len(CALLS[call])), WRONG):
        arguments = [*CALLS[call]]
        arguments[place] = wrong
        getattr(client, call)(*arguments)

    assert client.stats().dropped > 0


def test_no_call_of_a_tracker_raises_whatever_it_is_given(
    tracker: GraphTracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracker, "kernel_backtrace", True)
    monkeypatch.setattr("sys.stderr", None)
    for wrong in WRONG:
        tracker.track_allocate(wrong)
        tracker.track_deallocate(wrong)
        tracker.track_kernel_load(wrong, wrong, wrong, wrong, wrong, name=wrong, cores=wrong)
        tracker.declare_device(wrong)
        tracker.track_allocate(Buffer(wrong, wrong, wrong, wrong, wrong, wrong, wrong))
