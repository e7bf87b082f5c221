"""`ttmem clean` as it is typed."""

from __future__ import annotations

import argparse
import json
import socket
from pathlib import Path

import pytest

from tests.clean.conftest import Start
from tests.doctor.hosts import write_probe_region
from tests.sources.region_writer import Slot, Written
from ttmem.commands import clean
from ttmem.errors import BadInput

HELD = (4 << 20, 2048, 0, 0, 512)


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def call(*arguments: object) -> int:
    parser = argparse.ArgumentParser()
    clean.prepare(parser)
    return clean.run(parser.parse_args([str(argument) for argument in arguments]))


def said(capsys: pytest.CaptureFixture[str]) -> str:
    return " ".join(capsys.readouterr().out.split())


def test_without_yes_it_says_what_it_would_do_to_the_byte(
    shm: Path, dead: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    pid = dead()
    path = Written(slots=[Slot(pid, HELD)]).write(shm)

    assert call("--shm", shm) == 0

    text = said(capsys)
    assert f"4.0 MiB (4,196,864 B) of dead process {pid} (python)" in text
    assert "Nothing was changed" in text
    assert path.exists()


def test_yes_does_it_and_undo_takes_it_back(
    shm: Path, dead: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    path = Written(slots=[Slot(dead(), HELD)]).write(shm)
    before = path.read_bytes()

    assert call("--shm", shm, "--yes", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert not path.exists()
    assert call("--undo", document["backup"]) == 0

    assert path.read_bytes() == before
    (step,) = document["steps"]
    assert (step["kind"], step["done"], step["bytes"]) == ("remove_region", True, sum(HELD))


def test_where_there_is_nothing_to_clean_it_says_so(
    shm: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("--shm", shm, "--yes") == 0
    assert said(capsys) == "Nothing to clean."


def test_what_is_left_alone_shows_in_the_exit_code(
    shm: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (shm / "tt_device_7_memory").write_bytes(b"?")

    assert call("--shm", shm, "--yes") == 4
    assert "LEFT ALONE - tt_device_7_memory: 1 bytes, where a region has 8576" in said(capsys)


def test_a_folder_that_is_not_there_is_a_wrong_argument(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="is not a directory"):
        call("--shm", tmp_path / "nowhere")


def test_a_socket_that_nobody_listens_at_is_removed_and_one_that_is_served_stays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stale, served = tmp_path / "stale", tmp_path / "served"
    with socket.socket(socket.AF_UNIX) as gone:
        gone.bind(str(stale))
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(served))
        listening.listen()

        assert call("--socket", stale) == 0
        assert stale.exists()
        assert call("--socket", stale, "--yes") == 0
        assert call("--socket", served, "--yes") == 0

    assert not stale.exists()
    assert served.exists()


def test_a_file_where_the_socket_should_be_stays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "s"
    path.write_text("mine")

    assert call("--socket", path, "--yes") == 4
    assert path.read_text() == "mine"


def test_probe_regions_of_the_dead_go_and_come_back(
    shm: Path, dead: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    region = write_probe_region(shm, dead())
    before = region.read_bytes()

    assert call("--shm", shm, "--yes", "--force") == 0
    left = list(shm.iterdir())
    said = capsys.readouterr().out
    assert call("--undo") == 0

    assert left == []
    assert f"removed {region.name}: the probe region of dead process" in said
    assert region.read_bytes() == before


def test_a_probe_region_of_a_dead_process_stays_without_yes(
    shm: Path, dead: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    region = write_probe_region(shm, dead())

    assert call("--shm", shm, "--force") == 0

    assert region.exists()
    assert f"remove {region.name}: the probe region of dead process" in capsys.readouterr().out
