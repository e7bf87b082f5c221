"""`ttmem cut` writes a whole part, or leaves everything as it was."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.analysis.runs import Run
from tests.recording.rewriting import rewritten
from ttmem.clock import now_ns
from ttmem.commands import main
from ttmem.events import DeviceDeclaration, Event, MemoryKind, Op
from ttmem.ledger import Books
from ttmem.procfs import ProcessFacts
from ttmem.recording import Recording
from ttmem.recording.files import FileSink
from ttmem.recording.format import ChunkType
from ttmem.recording.recorder import Recorder, described

GOLDEN = Path(__file__).parents[1] / "data" / "recordings" / "version-1.ttmem"


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    return Path(shutil.copy(GOLDEN, tmp_path / "run.ttmem"))


@pytest.mark.parametrize("verb", [("cut",), ("export", "--to", "csv")])
def test_a_part_that_would_begin_after_the_end_is_an_error(
    verb: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Run(tmp_path / "run.ttmem") as run:
        run.alloc(4096)
    where = (str(tmp_path / "run.ttmem"), "--from", "999999999s", "-o", str(tmp_path / "part"))

    assert main([*verb, *where]) == 2

    assert "has no instant 999,999,999.000 s" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["cut", "report", "diff"])
def test_a_recording_is_not_replaced_by_what_is_made_of_it(
    verb: str, recorded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = recorded.read_bytes()
    other = tmp_path / "link.ttmem"
    other.symlink_to(recorded)

    for name in (recorded, other):
        files = [str(recorded)] * (2 if verb == "diff" else 1)
        assert main([verb, *files, "-o", str(name), "--overwrite"]) == 2
        said = f"ttmem: {name} is the recording itself; name another file with -o\n"
        assert capsys.readouterr().err == said
    assert recorded.read_bytes() == before


@pytest.mark.parametrize("problem", ["the range", "the recording", "the disk", "a writer"])
def test_a_cut_that_fails_leaves_the_file_that_it_would_have_replaced(
    problem: str, recorded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = tmp_path / "old.ttmem"
    old.write_bytes(b"precious")
    old.chmod(0o640)
    wanted, writer = ["--from", "start", "--to", "end"], None
    if problem == "the range":
        wanted = ["--from", "end", "--to", "start"]
    elif problem == "the recording":
        recorded.write_bytes(_without_key_frame(recorded))
    elif problem == "a writer":
        writer = FileSink(str(old), overwrite=True)
        writer.append(b"precious")
    else:
        os.mkdir(f"{old}.part-{os.getpid()}")  # nothing can be written there

    code = 1 if problem == "the disk" else 2
    assert main(["cut", str(recorded), *wanted, "-o", str(old), "--overwrite"]) == code

    assert capsys.readouterr().err.count("\n") >= 1
    assert old.read_bytes() == b"precious"
    assert [path for path in tmp_path.glob("*.part-*") if path.is_file()] == []
    if writer is not None:
        writer.close()


def _without_key_frame(path: Path) -> bytes:
    return rewritten(path, lambda kind, payload: b"" if kind is ChunkType.STATE else payload)


def test_a_part_replaces_a_file_if_that_is_wanted(recorded: Path, tmp_path: Path) -> None:
    part = tmp_path / "part.ttmem"
    assert main(["cut", str(recorded), "-o", str(part)]) == 0
    assert main(["cut", str(recorded), "-o", str(part)]) == 2
    part.write_bytes(b"old")

    assert main(["cut", str(recorded), "-o", str(part), "--overwrite"]) == 0

    assert sorted(path.name for path in tmp_path.iterdir()) == ["part.ttmem", "run.ttmem"]
    assert part.stat().st_mode & 0o777 == 0o600
    with Recording(str(part)) as found, Recording(str(recorded)) as whole:
        assert found.at("end").devices == whole.at("end").devices


def test_names_are_in_a_part_once(tmp_path: Path) -> None:
    """Also those that were written after the beginning of the part, and belong to its first record."""
    books, path, part = Books(), tmp_path / "run.ttmem", tmp_path / "part.ttmem"
    recorder = Recorder(books, FileSink(str(path)), described("test"))
    process = books.open_process(ProcessFacts(41, 1, "ann", "python"))
    books.declare(process, DeviceDeclaration(0, unique_id="77", board="n300"))
    books.define_string(process, 1, "a name")
    event = Event(Op.ALLOC, MemoryKind.DRAM, id=1, size=64, name=1).pack()
    books.apply(process, event, 0, len(event), now_ns())
    recorder.close()

    assert main(["cut", str(path), "-o", str(part)]) == 0

    with Recording(str(path)) as whole, Recording(str(part)) as cut:
        counts = [one._chunks.count(ChunkType.STRINGS) for one in (whole, cut)]
        shown = [one.at("end", ["buffers"]).buffers for one in (whole, cut)]
    assert counts == [1, 1]
    assert shown[0] == shown[1] is not None
