"""On a full disk, a writer reports it once, continues, and leaves a readable file."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.own_process import finish
from tests.own_process import start as start_verb
from tests.patience import PATIENCE_S, wait_until
from tests.probe.conftest import launcher as launcher
from tests.probe.conftest import runtime as runtime
from tests.probe.watched import Launcher
from tests.server.conftest import StartServer
from tests.server.conftest import start as start
from tests.small_disk import SmallDisk, small_disk
from ttmem.clock import now_ns
from ttmem.errors import BadInput
from ttmem.events import EVENT_SIZE, DeviceDeclaration, Event, MemoryKind, Op
from ttmem.exporters import FORMATS
from ttmem.ledger import Books
from ttmem.procfs import ProcessFacts
from ttmem.recording import Recording
from ttmem.recording.files import FileSink
from ttmem.recording.format import ChunkType
from ttmem.recording.received import Received
from ttmem.recording.recorder import Recorder, described
from ttmem.snapshots import Snapshot

FULL = "No space left on device"
ENDLESS = ("simulate", "transformer", "--steps", 0, "--rate", 50)
# More than a small disk holds: the addresses do not compress.
PROGRAM = (
    "import random, sys, time\n"
    "mesh = lib.mesh_open(1)\n"
    "for turn in range(8):\n"
    "    held = [buffer(mesh, random.getrandbits(40), 0, random.randrange(1, 9999)) for _ in range(2000)]\n"
    "    time.sleep(0.3)\n"
    "    for each in held: lib.buffer_free(each)\n"
    "print('done')\n"
    "sys.exit(7)\n"
)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    place = tmp_path / "disk"
    place.mkdir()
    with small_disk(place, 128 << 10) as found:
        yield found


@pytest.fixture
def larger_disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """Full only when it is filled."""
    place = tmp_path / "disk"
    place.mkdir()
    with small_disk(place, 16 << 20) as found:
        yield found


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recorded") / "run.ttmem"
    done = finish("simulate", "transformer", "--steps", 40, "--rate", 0, "-o", path)
    assert done.returncode == 0, done.stderr
    return path


def _check_what_is_left(path: Path) -> Snapshot:
    """Everything in it is intact, and what is missing is counted."""
    with Recording(str(path)) as recording:
        assert recording.verify() == ()
        info = recording.info()
        records = sum(len(data) // EVENT_SIZE for _, data in recording.records())
        assert records + info.lost == info.end - info.first
        return recording.at("end")


def _held(path: Path) -> int:
    """DRAM at the end of a recording; 0 while there is nothing in it."""
    try:
        with Recording(str(path)) as recording:
            return sum(device.memory.dram.held for device in recording.at("end").devices)
    except BadInput:
        return 0


def _lost(path: Path) -> int:
    with Recording(str(path)) as recording:
        return recording.info().lost


def test_a_simulation_ends_and_says_what_is_missing(disk: SmallDisk) -> None:
    path = disk.path / "run.ttmem"

    done = finish("simulate", "transformer", "--steps", 200, "--rate", 0, "-o", path)

    shown = _check_what_is_left(path)
    lost = _lost(path)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.endswith(f"in {path}; {lost:,} records lost: {FULL}\n")
    assert lost > 0
    assert "200 steps" in done.stdout
    assert [remark.kind for remark in shown.remarks] == ["recording_gap"]


def test_a_disk_that_was_full_before_leaves_an_empty_file(disk: SmallDisk) -> None:
    path = disk.path / "run.ttmem"
    path.touch()
    disk.fill()

    done = finish("simulate", "cnn", "--steps", 1, "--rate", 0, "-o", path, "--overwrite")
    shown = finish("ps", path)

    assert (done.returncode, done.stderr) == (1, "")
    assert "ttmem: recorded 0 records, 0 B, in" in done.stdout
    assert done.stdout.endswith(f"records lost: {FULL}\n")
    assert (shown.returncode, shown.stdout) == (2, "")
    assert shown.stderr == f"ttmem: {path} is empty: nothing has been recorded in it yet\n"


def test_a_watched_program_goes_on_and_keeps_its_exit_code(
    launcher: Launcher, disk: SmallDisk
) -> None:
    path = disk.path / "run.ttmem"

    done = launcher.run(*launcher.program(PROGRAM), options=("-o", str(path)))

    _check_what_is_left(path)
    said = [line for line in done.stderr.splitlines() if FULL in line]
    assert (done.returncode, done.stdout) == (7, "done\n")
    assert len(said) == 1, done.stderr
    assert said[0].endswith(f"in {path}; {_lost(path):,} records lost: {FULL}")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("beside", ["a server", "nobody"])
def test_a_recorder_goes_on_with_a_key_frame_when_there_is_space(
    beside: str, start: StartServer, launcher: Launcher, larger_disk: SmallDisk
) -> None:
    disk = larger_disk
    path = disk.path / "run.ttmem"
    if beside == "a server":
        server = start("--no-shm")
        workload = start_verb(*ENDLESS, "--socket", server.path)
        where = ("--socket", server.path)
    else:
        endless = PROGRAM.replace("range(8)", "range(10**6)").replace("2000", "200")
        line = launcher.line(*launcher.program(endless), options=("--quiet",))
        workload = subprocess.Popen(line, stdout=subprocess.PIPE, text=True)
        where = ("--shm", str(launcher.folder))
    recorder = start_verb("record", str(path), *where)
    wait_until(lambda: _held(path) > 0)
    wait_until(lambda: _has_a_gap_after_filling(disk, path))
    recorder.send_signal(signal.SIGINT)
    out, err = recorder.communicate(timeout=PATIENCE_S)
    workload.terminate()
    workload.communicate(timeout=PATIENCE_S)

    shown = _check_what_is_left(path)
    assert (recorder.returncode, err) == (1, "")
    assert f"{_lost(path):,} records lost: {FULL}" in out
    assert shown.remarks == ()
    assert shown.processes


def _has_a_gap_after_filling(disk: SmallDisk, path: Path) -> bool:
    """Not if the recorder did not run while the disk was full: on a busy machine it may have to wait for its turn."""
    disk.fill()
    wait_until(lambda: not _grows(path))
    disk.empty()
    wait_until(lambda: _grows(path))
    return _lost(path) > 0


def _grows(path: Path) -> bool:
    """Within three times what a chunk waits at most."""
    before = path.stat().st_size
    time.sleep(1.2)
    return path.stat().st_size > before


def test_the_flight_recorder_goes_on_and_keeps_what_is_around_a_gap(
    start: StartServer, larger_disk: SmallDisk
) -> None:
    disk = larger_disk
    folder = disk.path / "flight"
    server = start("--no-shm", "--record", str(folder))
    workload = start_verb(*ENDLESS, "--socket", server.path)
    (ring,) = wait_until(lambda: list(folder.glob("ring-*.ttmem")))
    wait_until(lambda: _held(ring) > 0)
    disk.fill()
    wait_until(lambda: f"the flight recorder loses events: {FULL}" in server.log)
    disk.empty()
    wait_until(lambda: _lost(ring) > 0)
    workload.terminate()
    workload.communicate(timeout=PATIENCE_S)
    server.sees(lambda seen: not seen.processes)
    assert finish("mark", "after the gap", "--socket", server.path).returncode == 0
    assert server.stop() == 0

    (kept,) = folder.glob("kept-*-mark.ttmem")
    for path in (ring, kept):
        shown = _check_what_is_left(path)
        assert (shown.remarks, shown.processes) == ((), ())
    assert _lost(kept) == _lost(ring)
    assert "too slow" not in server.log


def test_what_a_full_disk_refused_is_repeated_when_there_is_space(larger_disk: SmallDisk) -> None:
    """Names of processes, devices and call sites, and markers, as if the disk had never been full."""
    disk, books, now = larger_disk, Books(), now_ns()
    path = disk.path / "run.ttmem"
    recorder = Recorder(books, FileSink(str(path)), described("test"))
    _open(books, 41, now)
    recorder.tick(now)
    wait_until(lambda: recorder.written().records == recorder.position)

    def refused() -> bool:
        recorder.telemetry({}, now)  # fills the last page
        return recorder.written().problem is not None

    def accepted() -> bool:
        recorder.tick(now_ns())
        return recorder.written().problem is None

    disk.fill()
    wait_until(refused)
    _open(books, 42, now)
    recorder.tick(now)
    recorder.mark("while it was full", now)
    wait_until(lambda: not recorder._writer._queue)
    disk.empty()
    wait_until(accepted)
    recorder.tick(now_ns())
    recorder.close()

    with Recording(str(path)) as recording:
        shown = recording.at("end", ["buffers"])
        processes = [(one.pid, one.devices) for one in recording.processes]
        markers = [(one.kind, one.pid, one.text) for one in recording.markers]
        assert recording.verify() == ()
        assert recording.info().closed
    sites = [(one.pid, one.device, one.site) for one in shown.buffers or ()]
    assert sorted(sites) == [(41, "chip", "model.py:41 f"), (42, "chip", "model.py:42 f")]
    assert processes == [(41, {0: "chip"}), (42, {0: "chip"})]
    assert sorted(markers, key=str) == [
        ("mark", None, "while it was full"),
        ("start", 41, "pid 41 (python)"),
        ("start", 42, "pid 42 (python)"),
    ]


class _SmallChunksOnly(FileSink):
    """A disk that still takes documents when it refuses records and key frames."""

    is_full = False

    def append(self, chunk: bytes) -> None:
        if self.is_full and chunk[4] in (ChunkType.RECORDS, ChunkType.STATE):
            raise OSError(errno.ENOSPC, FULL)
        super().append(chunk)


def test_what_is_known_of_a_process_without_its_records_does_not_hide_the_state_before(
    tmp_path: Path,
) -> None:
    books, now = Books(), now_ns()
    sink = _SmallChunksOnly(str(tmp_path / "run.ttmem"))
    recorder = Recorder(books, sink, described("test"))
    recorder.tick(now)
    wait_until(lambda: recorder.written().state_bytes > 0)

    sink.is_full = True
    _open(books, 41, now)
    recorder.end_file(now)
    wait_until(lambda: recorder.written().lost > 0)
    recorder.begin_file(now)  # with a key frame, which is refused, too
    recorder.close()

    with Recording(str(tmp_path / "run.ttmem")) as recording:
        info, shown = recording.info(), recording.at("end")
    assert (info.first, info.lost) == (0, info.end)
    assert (shown.processes, [remark.kind for remark in shown.remarks]) == ((), ["recording_gap"])


class _Passed:
    """What a server sends to `ttmem record`."""

    def __init__(self, received: Received) -> None:
        self._received = received

    def append(self, chunk: bytes) -> None:
        self._received.take(chunk)

    def close(self) -> None: ...


def test_records_that_are_refused_before_the_first_that_is_written_are_counted(
    tmp_path: Path,
) -> None:
    books, now, path = Books(), now_ns(), tmp_path / "run.ttmem"
    sink = _SmallChunksOnly(str(path))
    received = Received(sink)
    recorder = Recorder(books, _Passed(received), described("test"))
    recorder.tick(now)
    wait_until(lambda: not recorder._writer._queue)  # the first key frame is written

    sink.is_full = True
    _open(books, 41, now)
    recorder.tick(now)
    wait_until(lambda: received.wants_file)  # refused, and some time has passed
    sink.is_full = False
    recorder.begin_file(now)
    _open(books, 42, now)
    recorder.close()
    written = received.close()

    assert written.lost > 0
    assert _lost(path) == written.lost
    assert [one.pid for one in _check_what_is_left(path).processes] == [41, 42]


def _open(books: Books, pid: int, now: int) -> None:
    process = books.open_process(ProcessFacts(pid=pid, start_time_ns=1, user="u", command="python"))
    books.declare(process, DeviceDeclaration(0, unique_id="chip", board="n150"))
    books.define_string(process, 7, f"model.py:{pid} f")
    event = Event(Op.ALLOC, MemoryKind.DRAM, id=pid, size=64, site=7, time=now).pack()
    books.apply(process, event, 0, len(event), now)


@pytest.mark.parametrize("name", [*FORMATS])
def test_an_export_says_so_and_leaves_nothing_behind(
    name: str, recorded: Path, disk: SmallDisk
) -> None:
    disk.fill()
    target = disk.path / "out"

    done = finish("export", recorded, "--to", name, "-o", target)

    assert done.returncode == 1
    assert done.stderr.startswith(f"ttmem: {target} cannot be written: ")
    assert done.stderr.count("\n") == 1
    assert os.listdir(disk.path) == ["ballast"]


@pytest.mark.parametrize("verb", ["report", "cut", "diff"])
def test_a_page_and_a_part_are_not_left_half_written(
    verb: str, recorded: Path, disk: SmallDisk
) -> None:
    disk.fill()
    files = [recorded, recorded] if verb == "diff" else [recorded]

    done = finish(verb, *files, "-o", disk.path / "out")

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.endswith(f"cannot be written: {FULL}\n")
    assert done.stderr.count("\n") == 1
    assert os.listdir(disk.path) == ["ballast"]
