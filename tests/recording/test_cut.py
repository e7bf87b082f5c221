"""`ttmem cut` writes a whole part, or leaves everything as it was."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.recording.rewriting import rewritten
from ttmem.commands import main
from ttmem.recording import Recording
from ttmem.recording.format import ChunkType
from ttmem.recording.writer import FileSink

GOLDEN = Path(__file__).parents[1] / "data" / "recordings" / "version-1.ttmem"


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    return Path(shutil.copy(GOLDEN, tmp_path / "run.ttmem"))


def test_a_recording_is_not_cut_into_itself(
    recorded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = recorded.read_bytes()
    other = tmp_path / "link.ttmem"
    other.symlink_to(recorded)

    for name in (recorded, other):
        assert main(["cut", str(recorded), "-o", str(name), "--overwrite"]) == 2
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

    assert main(["cut", str(recorded), *wanted, "-o", str(old), "--overwrite"]) == 2

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
