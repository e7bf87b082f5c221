"""`ttmem doctor` as it is typed."""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.doctor.hosts import HOST, host, process, region
from tests.sources.region_writer import Slot, Written
from ttmem.commands import doctor
from ttmem.doctor.examination import examine
from ttmem.errors import BadInput
from ttmem.events import Owner, Remark
from ttmem.sources.host import RuntimeUse
from ttmem.sources.socket.listener import SocketFacts, SocketState
from ttmem.views.doctor import doctor_sheet

HELD = (4096, 2048, 0, 0, 512)


def call(shm: Path, *arguments: object) -> int:
    parser = argparse.ArgumentParser()
    doctor.prepare(parser)
    words = ["--shm", shm, "--socket", shm / "absent", *arguments]
    return doctor.run(parser.parse_args([str(word) for word in words]))


def told(shm: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    code = call(shm, "--json")
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return code, document


def of_region(document: dict[str, Any], shm: Path) -> list[dict[str, Any]]:
    return [each for each in document["findings"] if str(each["path"]).startswith(str(shm))]


def test_a_ghost_is_a_warning_with_the_command_that_mends_it(
    shm: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    Written(slots=[Slot(os.getpid(), HELD), Slot(gone.pid, HELD)]).write(shm)

    code, document = told(shm, capsys)

    (ghost,) = [each for each in document["findings"] if each["kind"] == "ghost"]
    assert code == 1
    assert document["schema"] == "ttmem.doctor/1"
    assert (ghost["level"], ghost["pid"], ghost["bytes"]) == ("warning", gone.pid, sum(HELD))
    assert ghost["command"] == f"ttmem clean --shm {shm} --yes"
    (listed,) = document["regions"]
    assert (listed["version"], listed["size"]) == (3, 8576)
    assert [(p["pid"], p["owner"]) for p in listed["processes"]] == [
        (os.getpid(), "live"),
        (gone.pid, "dead"),
    ]


def test_a_sound_region_is_listed_and_nothing_is_wrong_with_it(
    shm: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = Written(slots=[Slot(os.getpid(), HELD)]).write(shm)
    path.chmod(0o600)

    _, document = told(shm, capsys)

    assert of_region(document, shm) == []
    assert [each["mode"] for each in document["regions"]] == ["0600"]


def test_whatever_lies_there_is_one_finding_each_and_never_a_crash(
    shm: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dice = random.Random(7)
    for number in range(40):
        data = bytes(dice.randrange(256) for _ in range(dice.choice([0, 1, 500, 8576])))
        (shm / f"tt_device_{number}_memory").write_bytes(data)
        (shm / f"ttmem_{number + 1}_{number}").write_bytes(data)
    os.mkfifo(shm / "tt_device_50_memory")
    (shm / "tt_device_51_memory").symlink_to("/etc/passwd")
    (shm / "tt_device_\x1b[31m_memory").touch()

    code, document = told(shm, capsys)

    assert code == 1
    skipped = [each for each in of_region(document, shm) if "tt_device" in each["path"]]
    assert len(skipped) == 43
    assert call(shm) == 1
    assert "\x1b" not in capsys.readouterr().out


def test_a_folder_that_is_not_there_is_a_wrong_argument(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="is not a directory"):
        call(tmp_path / "nowhere")


def test_a_sound_host_is_called_so() -> None:
    text = doctor_sheet(HOST, (), width=80, color=False)

    assert text.splitlines() == [
        "HOST",
        " card     0  p150  PCI 0000:01:00.0  /dev/tenstorrent/0",
        "          driver 2.4.0",
        " ttnn     no process has it loaded",
        " region   none",
        "          8.0 GiB of 16.0 GiB free in /dev/shm",
        "",
        "Nothing is wrong.",
    ]


@pytest.mark.parametrize("width", [40, 80, 120, 200])
def test_no_line_is_wider_than_the_terminal_and_a_shared_remedy_is_shown_once(width: int) -> None:
    ghosts = [Remark("ghost", f"process {pid} (python) has died", pid, 9) for pid in (1, 2, 3)]
    facts = host(
        regions=(region(*ghosts, processes=(process(Owner.LIVE), process(Owner.DEAD, 2))),) * 40,
        runtimes=(RuntimeUse("0.81.1", "/opt/" + "x" * 60, tuple(range(100, 120))),),
        sockets=(SocketFacts("/tmp/s", SocketState.SERVED, "ada", 5, "ttmem serve"),),
    )

    text = doctor_sheet(facts, examine(facts), width=width, color=False)

    assert max(map(len, text.splitlines())) <= width
    assert text.count("$ ttmem clean --yes") == 1
