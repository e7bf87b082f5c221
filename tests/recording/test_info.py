"""What `ttmem info` says of a file."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.ledger.oracle import region, slot
from tests.own_process import start
from tests.patience import PATIENCE_S, wait_until
from tests.recording.rewriting import rewritten
from ttmem.clock import now_ns
from ttmem.commands import main
from ttmem.events import Amounts
from ttmem.ledger import Books
from ttmem.recording import Recording
from ttmem.recording.files import FileSink
from ttmem.recording.format import HEADER_SIZE, ChunkType, Header
from ttmem.recording.recorder import Recorder, described


@pytest.fixture
def counted(tmp_path: Path) -> Path:
    """A recording of a program without the probe."""
    books, path = Books(), tmp_path / "counted.ttmem"
    recorder = Recorder(books, FileSink(str(path)), described("test"))
    for held in (100, 400):
        now = now_ns()
        books.sample([region("77", slot(41, Amounts(dram=held)))], (), now)
        recorder.tick(now)
    recorder.close()
    return path


def test_it_names_processes_that_only_counters_told_of(
    counted: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["info", str(counted)]) == 0
    assert "  process    pid 41, python (77, by counters)\n" in capsys.readouterr().out


def test_nobody_knows_whether_an_allocation_of_such_a_process_has_failed(
    counted: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ps", str(counted), "--at", "oom"]) == 2
    assert "not every source reports them" in capsys.readouterr().err


@pytest.mark.parametrize(
    "rows", [b'"counters":[7,{"process":[],"device":{}}]', b'"counters":{"process":-1}']
)
def test_counters_of_another_shape_are_left_out(counted: Path, rows: bytes, tmp_path: Path) -> None:
    def change(kind: ChunkType, payload: bytes) -> bytes:
        if kind is not ChunkType.CONTEXT or b'"counters":[{' not in payload:
            return payload
        head, _, rest = payload.partition(b'"counters":[{')
        return head + rows + rest.partition(b"]")[2]

    path = tmp_path / "odd.ttmem"
    path.write_bytes(rewritten(counted, change))

    with Recording(str(path)) as recording:
        assert [(one.pid, dict(one.devices)) for one in recording.counted_processes] == [(41, {})]


def test_it_counts_what_only_a_later_version_can_read(
    counted: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = Header.unpack(counted.read_bytes()[:HEADER_SIZE])
    with counted.open("ab") as file:
        for later in (first._replace(type=99), first._replace(type=4, version=2)):
            file.write(later._replace(stored=0, raw=0, flags=0, payload_crc=0).pack())

    assert main(["info", str(counted)]) == 0
    assert (
        "  unknown    2 chunks of a later version of ttmem, not used\n" in capsys.readouterr().out
    )


def test_it_says_whether_the_file_is_still_being_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.ttmem"
    recorder = Recorder(Books(), FileSink(str(path)), described("test"))
    recorder.mark("begun", now_ns())
    wait_until(lambda: path.stat().st_size > 0)

    main(["info", str(path)])
    growing = capsys.readouterr().out
    recorder.close()
    main(["info", str(path)])

    assert "  end        still being written\n" in growing
    assert "  end        the writer closed it\n" in capsys.readouterr().out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_recording_that_is_ended_by_a_signal_is_closed(
    number: signal.Signals, tmp_path: Path
) -> None:
    folder, path = tmp_path / "shm", tmp_path / "run.ttmem"
    folder.mkdir()
    recording = start("record", path, "--shm", folder)
    wait_until(lambda: path.exists() and path.stat().st_size > 0)

    recording.send_signal(number)
    said, error = recording.communicate(timeout=PATIENCE_S)

    assert (recording.returncode, error) == (0, "")
    assert said.startswith("ttmem: recorded 0 records")
    with Recording(str(path)) as opened:
        assert opened.info().closed
