"""What may not be touched is left alone, with the reason."""

from __future__ import annotations

import json
import os
import pwd
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.clean.conftest import Mapper, Planner, Start
from tests.sources.region_writer import Slot, Written
from ttmem.clean.backup import Backups
from ttmem.clean.execution import carry_out
from ttmem.clean.planning import ClearSlots, make_plan

HELD = (4096, 0, 0, 0, 0)
OWNER = slice(856, 856 + 120)  # the first row


def test_unknown_layouts_links_and_pipes_are_left_alone(
    shm: Path, plan: Planner, backups: Backups, tmp_path: Path
) -> None:
    target = Written(number=1).write(tmp_path)
    (shm / "tt_device_1_memory").symlink_to(target)
    os.mkfifo(shm / "tt_device_2_memory")
    (shm / "tt_device_3_memory").write_bytes(b"short")
    Written(number=4, version=9).write(shm)
    (shm / "tt_device_5_memory").mkdir()
    (shm / "tt_device_x_memory").write_bytes(b"")
    made = plan()

    outcomes, _ = carry_out(made, backups)

    assert outcomes == ()
    assert len(made.left) == 6
    assert all(left.reason for left in made.left)
    assert len(os.listdir(shm)) == 6
    assert target.exists()


def test_garbage_never_raises_and_the_living_never_lose(
    shm: Path, plan: Planner, backups: Backups, living: Start
) -> None:
    dice = random.Random(5)
    owner = Slot(living(), HELD)
    before: dict[Path, bytes] = {}
    for number in range(300, 600):
        data = bytearray(Written(number=number, slots=[owner]).bytes())
        for _ in range(dice.choice([1, 8, 500])):  # anywhere but in the owner's row
            data[dice.choice([dice.randrange(40), dice.randrange(976, 8576)])] = dice.randrange(256)
        path = shm / f"tt_device_{number}_memory"
        path.write_bytes(data[: dice.choice([8576, 8576, dice.randrange(8576)])])
        before[path] = path.read_bytes()[OWNER]

    carry_out(plan(), backups)

    assert {path: path.read_bytes()[OWNER] for path in before} == before


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_other_users_regions_are_left_alone_with_the_command_that_helps(
    shm: Path, dead: Start
) -> None:
    closed = Written(number=1, slots=[Slot(dead(), HELD)]).write(shm)
    shared = Written(number=2, slots=[Slot(dead(), HELD)]).write(shm)
    closed.chmod(0o600)
    shared.chmod(0o666)
    for folder in (shm, *shm.parents):
        if folder.stat().st_uid == 0 and folder not in (Path("/"), Path("/tmp")):
            folder.chmod(0o755)

    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.setuid(pwd.getpwnam("nobody").pw_uid)
        made = make_plan(str(shm), None, force=True)
        words = [(left.path, left.command) for left in made.left]
        os.write(writer, json.dumps([len(made.steps), words]).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as said:
        answer = json.load(said)
    os.waitpid(child, 0)

    helps = f"sudo ttmem clean --shm {shm}"
    assert answer == [0, [[str(closed), helps], [str(shared), helps]]]


def _in_a_container(*command: object) -> list[str]:
    return [
        "unshare",
        "--user",
        "--map-root-user",
        "--pid",
        "--fork",
        "--mount-proc",
        *map(str, command),
    ]


def _containers_can_be_made() -> bool:
    try:
        return subprocess.run(_in_a_container("true"), capture_output=True).returncode == 0
    except OSError:
        return False


@pytest.mark.skipif(not _containers_can_be_made(), reason="no user namespaces here")
def test_in_a_container_rows_of_unseen_processes_are_left_alone(
    shm: Path, living: Start, mapping: Mapper
) -> None:
    path = Written(slots=[Slot(living(), HELD)]).write(shm)
    mapping(path)
    before = path.read_bytes()

    clean = _in_a_container(sys.executable, "-m", "ttmem", "clean", "--shm", shm, "--yes")
    done = subprocess.run(clean, capture_output=True, text=True)

    assert done.returncode == 4, done.stdout + done.stderr
    assert "a container with pids of its own" in " ".join(done.stdout.split())
    assert path.read_bytes() == before


@pytest.mark.skipif(not _containers_can_be_made(), reason="no user namespaces here")
def test_rows_of_a_region_that_a_container_uses_are_left_alone(
    shm: Path, dead: Start, mapping: Mapper
) -> None:
    path = Written(slots=[Slot(dead(), HELD)]).write(shm)
    mapping(path, *_in_a_container())

    made = make_plan(str(shm), None)
    forced = make_plan(str(shm), None, force=True)

    assert made.steps == ()
    assert [left.command for left in made.left] == [f"ttmem clean --shm {shm} --force --yes"]
    assert [type(step) for step in forced.steps] == [ClearSlots]


@pytest.mark.skipif(not _containers_can_be_made(), reason="no user namespaces here")
def test_doctor_recommends_nothing_that_clean_refuses(
    shm: Path, living: Start, mapping: Mapper
) -> None:
    path = Written(slots=[Slot(living(), HELD)]).write(shm)
    mapping(path)

    ask = [
        sys.executable,
        "-m",
        "ttmem",
        "doctor",
        "--json",
        "--shm",
        shm,
        "--socket",
        shm / "none",
    ]
    done = subprocess.run(_in_a_container(*ask), capture_output=True, text=True)

    found = {each["kind"]: each for each in json.loads(done.stdout)["findings"]}
    assert found["ghost"]["command"] is None
    assert "a container with pids of its own" in found["ghost"]["advice"]
    assert "run ttmem on the host" in found["ghost"]["advice"]
