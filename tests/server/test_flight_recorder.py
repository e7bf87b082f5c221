"""`ttmem serve --record DIR`, with real clients."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
from pathlib import Path

from tests.own_process import finish
from tests.own_process import start as start_verb
from tests.patience import PATIENCE_S, wait_until
from tests.probe.conftest import runtime as runtime
from tests.probe.conftest import watch as watch
from tests.probe.watched import Watched
from tests.server.conftest import StartServer
from tests.server.harness import OldClient, RunningServer
from ttmem.client.query import ServerConnection
from ttmem.clock import now_ns
from ttmem.errors import BadInput
from ttmem.events import DeviceDeclaration, Event, MemoryKind, Op
from ttmem.ledger import Books
from ttmem.procfs import ProcessFacts
from ttmem.recording import Recording
from ttmem.recording.flight import MOST_KEPT, FlightRecorder

MIB = 1 << 20
SECOND = 10**9
Watch = Callable[..., Watched]


def _total(folder: Path) -> int:
    """Bytes in a directory whose files come and go."""
    total = 0
    for name in os.listdir(folder):
        try:
            total += os.stat(folder / name).st_size
        except FileNotFoundError:
            continue
    return total


def _dram(file: Path) -> int:
    """What is held at the end of a recording; 0 while there is nothing in it."""
    try:
        with Recording(str(file)) as recording:
            return sum(device.memory.dram.held for device in recording.at("end").devices)
    except BadInput:
        return 0


def _only(folder: Path, pattern: str) -> Path:
    (found,) = wait_until(lambda: list(folder.glob(pattern)))
    return found


def test_a_killed_server_leaves_recordings_that_open_and_the_next_one_goes_on(
    start: StartServer, tmp_path: Path
) -> None:
    folder = tmp_path / "flight"
    server = start("--no-shm", "--record", str(folder))
    with OldClient(server.path) as client:
        client.alloc(5 * MIB, id=1, kind=0)
        ring = _only(folder, "ring-*.ttmem")
        wait_until(lambda: _dram(ring) == 5 * MIB)
        server.kill()

    start("--no-shm", "--record", str(folder), name="second")

    wait_until(lambda: len(list(folder.iterdir())) == 2)
    files = sorted(folder.iterdir())
    assert files[0] == ring
    assert _dram(ring) == 5 * MIB
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    with Recording(str(ring)) as recording:
        assert recording.verify() == ()


def test_the_ring_never_takes_more_than_it_may_keep(start: StartServer, tmp_path: Path) -> None:
    folder = tmp_path / "flight"
    server = start("--no-shm", "--record", str(folder), "--keep", "1MiB")
    first = _only(folder, "ring-*.ttmem")
    run = ("simulate", "transformer", "--steps", 0, "--rate", 0, "--socket", server.path)
    workload = start_verb(*run)
    most = 0

    def first_is_gone() -> bool:
        nonlocal most
        most = max(most, _total(folder))
        return not first.exists()

    wait_until(first_is_gone)
    workload.kill()
    workload.communicate(timeout=PATIENCE_S)
    server.sees(lambda seen: not seen.processes)
    assert server.stop() == 0

    assert MIB // 2 < max(most, _total(folder)) <= MIB
    files = sorted(folder.glob("ring-*.ttmem"))
    for file in files:
        with Recording(str(file)) as recording:
            assert recording.info().key_frames >= 1
            assert recording.verify() == ()
            assert len(recording.at("start").devices) == 4


def test_a_mark_keeps_what_was_before_it(start: StartServer, tmp_path: Path) -> None:
    folder = tmp_path / "flight"
    server = start("--no-shm", "--record", str(folder))
    with OldClient(server.path) as client:
        client.alloc(5 * MIB, id=1, kind=0)
        server.sees(lambda seen: bool(seen.devices) and seen.devices[0].memory.dram.held > 0)

        code, out, _ = finish("mark", "latency doubled", "--socket", server.path)
        server.stop()

    kept = _only(folder, "kept-*-mark.ttmem")
    with Recording(str(kept)) as recording:
        marks = [marker.text for marker in recording.markers if marker.kind == "mark"]
        assert recording.at("end").devices[0].memory.dram.held == 5 * MIB
    assert code == 0
    assert out.startswith(f"marked in {folder}; a minute from now")
    assert marks == ["latency doubled"]
    assert f"mark 'latency doubled'; the minutes around it are kept in {kept}" in server.log


def test_a_failed_allocation_is_kept(start: StartServer, watch: Watch, tmp_path: Path) -> None:
    folder = tmp_path / "flight"
    server = start("--shm", str(tmp_path), "--record", str(folder))
    watch(
        "mesh = lib.mesh_open(1); buffer(mesh, 7, 0, 4000); buffer(mesh, 8, 0, 2 << 40)\n"
        "buffer(mesh, 9, 0, 4000); say('made'); input()"
    )
    server.sees(lambda seen: [device.memory.dram.count for device in seen.devices] == [2])
    server.stop()

    with Recording(str(_only(folder, "kept-*-failure.ttmem"))) as recording:
        counts = [recording.at(at).devices[0].memory.dram.count for at in ("oom", "end")]
    assert counts == [1, 2]


class _NoSensors:
    def write(self) -> None: ...

    def close(self) -> None: ...


class _Flight:
    """A flight recorder on a clock of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log: list[str] = []
        self.books = Books()
        facts = ProcessFacts(pid=41, start_time_ns=1, user="u", command="python")
        self._process = self.books.open_process(facts)
        self.books.declare(self._process, DeviceDeclaration(0, unique_id="chip", board="n150"))
        self.recorder = FlightRecorder(
            self.books,
            str(folder),
            1 << 30,
            3600 * SECOND,
            host={},
            sampler=lambda write: _NoSensors(),
            info=self.log.append,
            problem=lambda kind, text: self.log.append(text),
        )
        self._start = now_ns()

    def tick(self, second: int, mark: str = "") -> list[str]:
        """Allocates a buffer of one byte; returns what has been kept by then."""
        now = self._start + second * SECOND
        if mark:
            self.recorder.mark(mark, now)
        event = Event(Op.ALLOC, MemoryKind.DRAM, id=second + 1, size=1, time=now).pack()
        self.books.apply(self._process, event, 0, len(event), now)
        recorder = self.recorder._recorder
        wait_until(lambda: recorder.written().records == recorder.position)
        self.recorder.tick(now)
        if self.recorder._keeping is not None:
            self.recorder._keeping.join(PATIENCE_S)
        return sorted(path.name for path in self.folder.glob("kept-*"))


def test_a_mark_within_a_minute_of_another_has_its_minute_after(tmp_path: Path) -> None:
    flight = _Flight(tmp_path / "flight")
    flight.tick(0, "first")
    flight.tick(50, "second")
    assert flight.tick(70) == []
    assert flight.tick(105) == []

    (kept,) = flight.tick(113)
    flight.recorder.close(PATIENCE_S)

    with Recording(str(flight.folder / kept)) as recording:
        marks = [marker.text for marker in recording.markers if marker.kind == "mark"]
        held = recording.at("end").devices[0].memory.dram.count
    assert marks == ["first", "second"]
    assert held == 4  # at 0, 50, 70 and 105 seconds
    (said,) = flight.log
    assert said.startswith("mark 'first', mark 'second'; the minutes around it are kept in ")


def test_the_failures_of_one_user_push_out_nothing_that_is_kept_for_another(tmp_path: Path) -> None:
    flight = _Flight(tmp_path / "flight")

    def fails(user: str, second: int) -> None:
        now = flight._start + second * SECOND
        flight.recorder._note("failure", "an allocation failed", now, frozenset((user,)))

    fails("mallory", 0)
    fails("alice", 10)  # within the same file
    flight.tick(200)
    (first,) = flight.tick(300)
    kept = [first]
    for second in range(400, 400 + 40 * 200, 200):
        fails("mallory", second)
        kept = flight.tick(second + 100)
    flight.recorder.close(PATIENCE_S)

    assert len(kept) == MOST_KEPT
    assert kept[0] == first


def test_a_loop_of_failures_makes_files_of_bounded_length_in_which_nothing_is_missing(
    tmp_path: Path,
) -> None:
    flight = _Flight(tmp_path / "flight")
    seconds = range(0, 300, 20)
    for second in seconds:
        flight.tick(second, f"mark {second}")
    flight.recorder.close(PATIENCE_S)

    found: dict[str, int] = {}  # the last second that a file has after a mark
    files = sorted(flight.folder.glob("kept-*"))
    for path in files:
        with Recording(str(path)) as recording:
            end = 20 * ((recording.at("end").devices[0].memory.dram.count or 0) - 1)
            for marker in recording.markers:
                found[marker.text] = max(end, found.get(marker.text, 0))
            assert recording.span[1] - recording.span[0] <= (120 + 180) * SECOND
    assert len(files) == 3
    assert all(found[f"mark {second}"] >= min(second + 60, seconds[-1]) for second in seconds)


def test_recordings_are_removed_when_they_are_older_than_they_are_kept_for(
    start: StartServer, tmp_path: Path
) -> None:
    folder = tmp_path / "flight"
    folder.mkdir(mode=0o700)
    names = [
        "ring-20260101T000000.000Z.ttmem",
        "ring-20260102T000000.000Z.ttmem",
        "kept-20260101T000000.000Z-mark.ttmem",
        "notes.txt",
    ]
    for name in names:
        (folder / name).touch()
    hours_ago = time.time() - 3 * 3600
    for name in (names[0], *names[2:]):
        os.utime(folder / name, (hours_ago, hours_ago))

    start("--no-shm", "--record", str(folder), "--keep-for", "2h")

    wait_until(lambda: not (folder / names[0]).exists())
    assert all((folder / name).exists() for name in names[1:])


def test_what_is_kept_may_come_from_several_files_of_the_ring(
    start: StartServer, tmp_path: Path
) -> None:
    folder = tmp_path / "flight"
    server = start("--no-shm", "--record", str(folder), "--keep", "8MiB")
    run = ("simulate", "transformer", "--steps", 0, "--rate", 0, "--socket", server.path)
    workload = start_verb(*run)
    wait_until(lambda: len(list(folder.glob("ring-*.ttmem"))) >= 2)
    workload.kill()
    workload.communicate(timeout=PATIENCE_S)
    server.sees(lambda seen: not seen.processes)
    finish("mark", "the end", "--socket", server.path)
    server.stop()

    ring = [Recording(str(file)) for file in sorted(folder.glob("ring-*.ttmem"))]
    with Recording(str(_only(folder, "kept-*.ttmem"))) as kept:
        first, last = ring[0].info(), ring[-1].info()
        found = kept.info()
        assert (found.first, found.end) == (first.first, last.end)
        assert kept.verify() == ()
        for file in ring:
            position = file.info().end
            assert kept.at(f"#{position}").devices == file.at(f"#{position}").devices
    for file in ring:
        file.close()


def test_a_server_that_does_not_record_refuses_a_mark(server: RunningServer) -> None:
    code, _, error = finish("mark", "anything", "--socket", server.path)

    assert code == 1
    assert "nobody records; start the server with `ttmem serve --record DIR`" in error


def test_a_mark_that_no_file_keeps_says_where_it_can_be_seen(
    server: RunningServer, tmp_path: Path
) -> None:
    with ServerConnection(server.path) as page:
        page.record(ring=True)
        code, out, _ = finish("mark", "slow", "--socket", server.path)

    assert code == 0
    assert out.startswith("marked for an hour: pages of `ttmem web` and `ttmem top`")
    assert "`ttmem serve --record DIR` keeps marks in files" in out


def test_a_directory_that_others_can_read_or_that_another_server_uses_is_refused(
    start: StartServer, tmp_path: Path
) -> None:
    shared, used = tmp_path / "shared", tmp_path / "used"
    shared.mkdir(mode=0o755)
    start("--no-shm", "--record", str(used))
    other = ("serve", "--no-shm", "--socket", tmp_path / "other.sock", "--record")

    refused = [finish(*other, folder) for folder in (shared, used)]

    assert [code for code, _, _ in refused] == [2, 2]
    assert [error.splitlines()[-1] for _, _, error in refused] == [
        f"ttmem: {shared} must be yours and closed to others: chmod 700 {shared}",
        f"ttmem: another server records in {used}",
    ]
    assert list(shared.iterdir()) == []
