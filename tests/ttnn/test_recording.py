"""A recording of real ttnn shows what the live views showed, to the byte, while the program allocates."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.own_process import finish
from tests.own_process import start as start_verb
from tests.patience import PATIENCE_S, wait_until
from tests.server.conftest import StartServer
from tests.server.conftest import start as start_server
from tests.ttnn.probed import Machines, start
from ttmem.feeds import LocalFeed
from ttmem.recording import Instant, Recording
from ttmem.recording.files import FileSink
from ttmem.recording.recorder import described
from ttmem.snapshots import DETAILS, Question, to_json

__all__ = ["start_server"]
SHOWN = "programs,buffers,cores"
# When one looked, and counters that the probe keeps beside its ring: they are those of the look, not of a position.
BESIDE_THE_RING = {".time_ns"} | {
    f".devices[].kernels.{name}"
    for name in ("loads", "unloads", "dispatches", "cache_entries", "cache_hits", "cache_misses")
}
WORK = """
import threading
def work():
    kept = []
    for number in range(400):
        columns = 32 * (1 + number % 7)
        config = ttnn.L1_MEMORY_CONFIG if number % 3 else ttnn.DRAM_MEMORY_CONFIG
        kept.append(ttnn.zeros((64, columns), ttnn.bfloat16, ttnn.TILE_LAYOUT, device, config))
        if number % 5 == 4:
            kept.append(ttnn.relu(kept[-1]))
        while len(kept) > 8:
            ttnn.deallocate(kept.pop(0))
thread = threading.Thread(target=work)
thread.start()
None
"""
ENDLESS = WORK.replace(
    "range(400)", "itertools.takewhile(lambda _: not ended.is_set(), itertools.count())"
)
ENDLESS = ENDLESS.replace(
    "import threading", "import itertools, threading\nended = threading.Event()"
)


@pytest.mark.parametrize("board", ["p150", "p150x4"])
def test_a_recording_equals_the_live_snapshots_while_the_program_allocates(
    machine: Machines, board: str, tmp_path: Path
) -> None:
    there = machine(board)
    session = start(there)
    path = tmp_path / "run.ttmem"
    feed = LocalFeed(str(there.folder))
    recorder = feed.record(FileSink(str(path)), described())
    live: list[tuple[Instant, dict[str, Any]]] = []

    def look() -> int:
        snapshot = feed.read(DETAILS)
        now = snapshot.time_ns
        live.append((Instant(recorder.position, now, now), to_json(snapshot)))
        return len({instant.position for instant, _ in live})

    feed.read(DETAILS)  # what a reader finds at its first look is listed, but in no recording
    session.run(ENDLESS)
    wait_until(lambda: look() >= 8)
    session.run("ended.set()\nthread.join()\nNone")
    look()
    idle = [look() for _ in range(3)]
    recorder.close()
    feed.close()

    with Recording(str(path)) as recording:
        for instant, shown in live:
            assert to_json(recording.snapshot(instant, Question(DETAILS))) == shown
    assert len({*idle}) == 1  # nothing happens, and nothing is written


def test_a_recording_begins_with_what_is_held_then(machine: Machines, tmp_path: Path) -> None:
    there = machine("p150")
    session = start(there)
    for code in (
        "l1 = ttnn.L1_MEMORY_CONFIG",
        "new = lambda rows: ttnn.empty((rows, 1024), ttnn.bfloat16, ttnn.TILE_LAYOUT, device, l1)",
        "kept, large = new(1024), new(8192)",
        "ttnn.deallocate(large)",
    ):
        session.run(f"{code}\nNone")
    path = tmp_path / "run.ttmem"
    feed = LocalFeed(str(there.folder))
    recorder = feed.record(FileSink(str(path)), described())
    session.run("more = new(2048)\nNone")
    feed.poll()
    recorder.close()
    feed.close()

    with Recording(str(path)) as recording:
        held = {
            when: recording.at(when).devices[0].memory.l1.requested
            for when in ("start", "peak:l1", "end")
        }
        assert held == {"start": 2 << 20, "peak:l1": 6 << 20, "end": 6 << 20}


def _shown(*where: object) -> dict[str, Any]:
    """`ttmem ps`, a process of its own."""
    code, out, error = finish("ps", "--json", "--detail", SHOWN, *where)
    assert code == 0, error
    document: dict[str, Any] = json.loads(out)
    return document


@contextmanager
def running(*arguments: object) -> Iterator[subprocess.Popen[str]]:
    """`ttmem`, until Ctrl-C."""
    process = start_verb(*arguments)
    try:
        yield process
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=PATIENCE_S)
        assert (process.returncode, error) in ((0, ""), (130, ""))
    finally:
        process.kill()
        process.communicate()


def begun(file: Path) -> bool:
    return file.exists() and file.stat().st_size > 0


def test_a_separate_ps_shows_what_the_recording_has_at_its_position(
    machine: Machines, tmp_path: Path
) -> None:
    there = machine("p150x4")
    session = start(there)
    session.run("None")
    file = tmp_path / "run.ttmem"
    shown: list[dict[str, Any]] = []

    def look() -> int:
        shown.append(_shown("--shm", there.folder))
        return len({document["processes"][0]["position"] for document in shown})

    with running("record", file, "--shm", there.folder):
        wait_until(lambda: begun(file))
        session.run(ENDLESS)
        wait_until(lambda: look() >= 4)
        session.run("ended.set()\nthread.join()\nNone")
        look()
        wait_until(lambda: _reached(file, shown[-1]))

    with Recording(str(tmp_path / "run.ttmem")) as recording:
        for document in shown:
            (process,) = document["processes"]
            at = f"{process['pid']}#{process['position']}"
            recorded = to_json(recording.at(at, SHOWN.split(",")))
            assert _differences(recorded, document) <= BESIDE_THE_RING


def _differences(one: Any, other: Any, path: str = "") -> set[str]:
    """Where two documents differ, without the numbers of list entries."""
    if isinstance(one, dict) and isinstance(other, dict):
        keys = one.keys() | other.keys()
        pairs = [(f"{path}.{key}", one.get(key), other.get(key)) for key in keys]
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        pairs = [(f"{path}[]", *pair) for pair in zip(one, other, strict=True)]
    else:
        return set() if one == other else {path}
    return set().union(*(_differences(a, b, where) for where, a, b in pairs))


def _reached(file: Path, document: dict[str, Any]) -> bool:
    """Whether the recording has come as far as a snapshot."""
    (process,) = document["processes"]
    with Recording(str(file)) as recording:
        now = recording.at("end").processes  # none, until the first records are written
        return any((one.position or 0) >= int(process["position"]) for one in now)


def test_a_recording_of_a_server_has_what_its_ps_showed_of_probe_socket_and_counters(
    machine: Machines, own_folder: Path, tmp_path: Path, start_server: StartServer
) -> None:
    watched, stock = machine("p150"), machine("p150")
    probed, counted = start(watched, TTMEM_REGION_DIR=str(own_folder)), stock.session()
    for session, there in ((probed, watched), (counted, stock)):
        session.run("None")
        for region in there.regions:
            region.rename(own_folder / region.name)
    counted.run("first = ttnn.zeros((64, 64), ttnn.bfloat16, ttnn.TILE_LAYOUT, device)\nNone")
    server = start_server("--shm", str(own_folder))
    run = ("simulate", "transformer", "--size", "small", "--steps", 0, "--rate", 20)
    file = tmp_path / "run.ttmem"
    shown: list[dict[str, Any]] = []

    def look() -> int:
        shown.append(_shown("--socket", server.path))
        return len({str(_positions(document)) for document in shown})

    with running(*run, "--socket", server.path):
        server.sees(lambda picture: len(picture.processes) == 3)
        with running("record", file, "--socket", server.path):
            wait_until(lambda: begun(file))
            for session in (probed, counted):
                session.run(ENDLESS)
            wait_until(lambda: look() >= 6)
            for session in (probed, counted):
                session.run("ended.set()\nthread.join()\nNone")
            look()

    with Recording(str(tmp_path / "run.ttmem")) as recording:
        for document in shown[1:]:  # by then all three have told something
            at = [f"{pid}#{position}" for pid, position in _positions(document).items()]
            position = max(recording.instant(when).position for when in at)
            instant = Instant(position, document["time_ns"], document["time_ns"])
            assert (
                to_json(recording.snapshot(instant, Question(tuple(SHOWN.split(","))))) == document
            )
    sources = {tuple(process["sources"]) for process in shown[-1]["processes"]}
    assert sources == {("probe", "shared memory v3"), ("socket",), ("shared memory v3",)}


def _positions(document: dict[str, Any]) -> dict[int, int]:
    told = ((process["pid"], process["position"]) for process in document["processes"])
    return {pid: position for pid, position in told if position}
