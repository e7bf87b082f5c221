"""`ttmem record` next to a server: everything that the server sees, without delaying it."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from tests.own_process import finish, ran
from tests.own_process import start as start_verb
from tests.patience import PATIENCE_S, wait_until
from tests.server.conftest import Share, StartServer
from tests.server.harness import OldClient, RunningServer
from tests.server.test_bounds import BECOME
from ttmem.clock import now_ns
from ttmem.errors import BadInput
from ttmem.events import DeviceDeclaration, Event, MemoryKind, Op
from ttmem.ledger import Books
from ttmem.procfs import ProcessFacts
from ttmem.recording import Instant, Recording
from ttmem.recording.memory import ChunkMemory, MemorySource
from ttmem.recording.received import Received
from ttmem.server import recordings as stream_module
from ttmem.server.recordings import Stream
from ttmem.snapshots import DETAILS, Question, Snapshot, to_json
from ttmem.sources.socket.peer import Peer
from ttmem.wire import frames

MIB = 1 << 20


def _begin(server: RunningServer, file: Path, *options: str) -> subprocess.Popen[str]:
    """`ttmem record`, once it records."""
    process = start_verb("record", file, "--socket", server.path, *options)
    wait_until(lambda: process.poll() is not None or _is_recording(file))
    assert process.poll() is None, process.communicate()
    return process


def _is_recording(file: Path) -> bool:
    try:
        with Recording(str(file)) as recording:
            return recording.info().key_frames > 0
    except BadInput:
        return False


def _end(process: subprocess.Popen[str]) -> str:
    process.send_signal(signal.SIGINT)
    out, error = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, error
    return out


def _instant(recording: Recording, shown: Snapshot) -> Instant:
    """Of a snapshot: where each of its processes had told as much as it says."""
    told = [(process.pid, process.position) for process in shown.processes if process.position]
    positions = [recording.instant(f"{pid}#{position}").position for pid, position in told]
    return Instant(max(positions), shown.time_ns, shown.time_ns)


@pytest.mark.slow
def test_a_recording_of_a_server_has_what_the_server_showed_while_clients_allocated(
    start: StartServer, tmp_path: Path
) -> None:
    server = start("--no-shm")
    run = ("simulate", "transformer", "--size", "small", "--steps", 0, "--socket", server.path)
    clients = [start_verb(*run, "--rate", rate) for rate in (20, 30)]
    server.sees(lambda picture: len(picture.processes) == 2)
    recorder = _begin(server, tmp_path / "a.ttmem")
    seen = set()
    shown = []

    def look() -> int:
        picture = server.picture(*DETAILS)
        if all(process.position for process in picture.processes):
            seen.add(tuple(process.position for process in picture.processes))
            shown.append(picture)
        return len(seen)

    wait_until(lambda: look() >= 4)
    late = _begin(server, tmp_path / "b.ttmem")
    first_of_late = len(shown)
    wait_until(lambda: look() >= 7)
    assert f"in {tmp_path / 'a.ttmem'}" in _end(recorder)
    _end(late)
    for client in clients:
        client.kill()
        client.communicate()

    for file, pictures in (("a", shown), ("b", shown[first_of_late:])):
        with Recording(str(tmp_path / f"{file}.ttmem")) as recording:
            assert recording.verify() == ()
            info = recording.info()
            assert (info.closed, info.lost, info.tail) == (True, 0, None)
            for picture in pictures[1:]:
                instant = _instant(recording, picture)
                again = recording.snapshot(instant, Question(DETAILS))
                assert _without_early_events(again, picture) == _without_early_events(
                    picture, again
                )


def _without_early_events(one: Snapshot, other: Snapshot) -> dict[str, object]:
    """As JSON, with as many events as both list: a recording has none from before it began."""
    document = to_json(one)
    count = min(len(one.events or ()), len(other.events or ()))
    document["events"] = document["events"][-count:] if count else []
    return document


def test_clients_and_marks_of_a_server_are_in_the_recording(
    start: StartServer, tmp_path: Path
) -> None:
    server = start("--no-shm")
    recorder = _begin(server, tmp_path / "a.ttmem", "--confidential")
    with OldClient(server.path) as client:
        client.alloc(5 * MIB, id=1, kind=0)
        server.sees(lambda picture: bool(picture.devices))
        code, out, _ = finish("mark", "slow", "--socket", server.path)
        assert (code, out) == (0, "marked in the recording that is made of this server\n")
        _end(recorder)

    with Recording(str(tmp_path / "a.ttmem")) as recording:
        (device,) = recording.at("end").devices
        assert device.memory.dram.held == 5 * MIB
        assert ("mark", "slow") in [(mark.kind, mark.text) for mark in recording.markers]
        assert [process.command for process in recording.processes] == [None]
        assert recording.info().recorded["confidential"] is True
    assert b"python" not in (tmp_path / "a.ttmem").read_bytes()


def test_a_server_that_stops_ends_the_recording_in_order(
    start: StartServer, tmp_path: Path
) -> None:
    server = start("--no-shm")
    recorder = _begin(server, tmp_path / "a.ttmem")
    with OldClient(server.path) as client:
        client.alloc(5 * MIB, id=1, kind=0)
        server.sees(lambda picture: bool(picture.devices))
        server.stop()
        _, error = recorder.communicate(timeout=PATIENCE_S)

    assert (recorder.returncode, error) == (0, "the server has stopped\n")
    with Recording(str(tmp_path / "a.ttmem")) as recording:
        assert recording.info().closed
        assert recording.at("end").devices[0].memory.dram.held == 5 * MIB


def test_a_server_that_is_killed_leaves_a_recording_that_opens(
    start: StartServer, tmp_path: Path
) -> None:
    server = start("--no-shm")
    recorder = _begin(server, tmp_path / "a.ttmem")

    server.kill()
    _, error = recorder.communicate(timeout=PATIENCE_S)

    assert recorder.returncode == 1
    assert server.path in error
    with Recording(str(tmp_path / "a.ttmem")) as recording:
        assert recording.at("end").devices == ()


def test_another_user_is_refused(
    start: StartServer, tmp_path: Path, open_to_everybody: Share
) -> None:
    place = open_to_everybody(start("--no-shm"))
    tmp_path.chmod(0o777)
    program = (
        "import locale, ttmem.commands, ttmem.commands.recording.record, ttmem.client.query\n"
        "import ttmem.recording.times, ttmem.recording.received, ttmem.recording.recorder\n"
        f"{BECOME}import sys; sys.argv = ['ttmem', 'record', 'x.ttmem', '--socket', {place!r}]\n"
        "sys.exit(ttmem.commands.main())"
    )

    done = ran([sys.executable, "-c", program], cwd="/tmp")

    assert (done.returncode, done.stdout) == (4, "")
    assert "only root and" in done.stderr
    assert "--shm" in done.stderr
    assert not Path("/tmp/x.ttmem").exists()


def test_recording_a_missing_server_is_an_error(tmp_path: Path) -> None:
    code, _, error = finish("record", tmp_path / "a.ttmem", "--socket", tmp_path / "none.sock")

    assert code == 3
    assert "none.sock" in error
    assert not (tmp_path / "a.ttmem").exists()


class Reader:
    """The other end of a subscriber's connection."""

    def __init__(self, stream: Stream) -> None:
        ours, self._socket = socket.socketpair()
        self.stream = stream
        self.peer = Peer(ours, 1, 0, None)  # type: ignore[arg-type]  # it asks nothing here
        self.memory = ChunkMemory()
        self.received = Received(self.memory)
        self._data = bytearray()
        assert stream.subscribe(self.peer, ring=False) is None

    def read(self) -> None:
        """Everything that has arrived."""
        while True:
            self.stream.send()
            self.peer.writable()
            try:
                data = self._socket.recv(MIB, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            self._data += data
            while len(self._data) >= 8:
                kind, length = frames.HEADER.unpack_from(self._data)
                if len(self._data) < 8 + length:
                    break
                if kind == frames.Frame.CHUNK:
                    self.received.take(bytes(self._data[8 : 8 + length]))
                del self._data[: 8 + length]

    def has(self, records: int) -> bool:
        self.read()
        return self.received.written().records >= records

    def close(self) -> None:
        self._socket.close()
        self.peer.socket.close()

    def ended(self) -> bool:
        self.read()
        return bool(self.memory.end) and Recording(MemorySource(self.memory)).info().closed


def test_a_slow_reader_loses_records_which_are_counted_and_goes_on_behind_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stream_module, "MOST_WAITING", 200_000)
    monkeypatch.setattr(stream_module, "AGAIN_NS", 0)
    books = Books()
    process = books.open_process(ProcessFacts(41, 41, "u", "python model.py"))
    books.declare(process, DeviceDeclaration(0, unique_id="chip0", board="n300"))
    stream = Stream(books, {}, lambda peer: None, lambda: None)
    slow, fast = Reader(stream), Reader(stream)
    chance = Random(1)

    def work(first: int) -> None:
        events = b"".join(
            Event(Op.ALLOC, MemoryKind.DRAM, id=n, size=chance.randrange(1, 1 << 20)).pack()
            + Event(Op.FREE, MemoryKind.DRAM, id=max(0, n - 500)).pack()
            for n in range(first // 2, first // 2 + 10_000)
        )
        books.apply(process, events, 0, len(events), now_ns())
        stream.tick(now_ns())

    # given a reader that has read nothing for so long that its queue is full
    number = 0
    while slow.peer in [
        subscriber.peer
        for subscriber in stream._subscribers
        if subscriber.reads or not subscriber.waiting
    ]:
        work(20_000 * number)
        number += 1
        wait_until(lambda: fast.has(19_000 * number))  # noqa: B023
    work(20_000 * number)
    number += 1
    wait_until(lambda: fast.has(20_000 * number))
    # when it reads again, and more happens
    files = len(slow.memory._files)

    def goes_on() -> bool:
        fast.read()
        slow.read()
        stream.tick(now_ns())
        return len(slow.memory._files) > files

    wait_until(goes_on)
    work(20_000 * number)
    expected = to_json(books.snapshot(now_ns()))
    for reader in (slow, fast):
        stream.end(reader.peer)
        wait_until(reader.ended)
        reader.close()

    # then its recording has a gap that is counted, and is exact behind it; the other one has everything
    whole, gaps = Recording(MemorySource(fast.memory)), Recording(MemorySource(slow.memory))
    assert whole.info().lost == 0
    assert gaps.info().lost == slow.received.written().lost > 0
    assert gaps.info().end == whole.info().end
    for recording in (whole, gaps):
        shown = to_json(recording.at("end"))
        assert shown["devices"] == expected["devices"]
        assert shown["remarks"] == []
    in_gap = gaps.at(f"#{20_000 * number}")
    assert [remark.kind for remark in in_gap.remarks] == ["recording_gap"]
    assert not stream
