"""A counter file is trusted only about processes of its owner."""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.other_user import OTHER, needs_root
from tests.sources.region_writer import OWN_CHIP, Slot, Written
from ttmem.events import Amounts, Owner
from ttmem.feeds import LocalFeed
from ttmem.procfs import user_id
from ttmem.sources.counters.files import MOST_PER_USER
from ttmem.sources.counters.proc_scan import ProcBudget, scan_proc
from ttmem.sources.counters.process_states import ProcessStates
from ttmem.sources.counters.remarks import silent_processes
from ttmem.sources.counters.source import MAX_DEVICES, CounterSource

VICTIM = "daemon"
HELD, FORGED = 42 << 20, 8 << 30
SpawnAs = Callable[[str], int]


@pytest.fixture
def spawn_as() -> Iterator[SpawnAs]:
    """Starts a process of a user, which lives until the test ends."""
    children: list[subprocess.Popen[bytes]] = []

    def start(user: str) -> int:
        children.append(subprocess.Popen(["sleep", "600"], user=user))
        return children[-1].pid

    yield start
    for child in children:
        child.kill()
        child.wait()


def written(folder: Path, user: str, pid: int, dram: int, number: int = OWN_CHIP) -> Path:
    slot = Slot(pid, (dram, 0, 0, 0, 0), b"sleep")
    path = Written(number=number, slots=[slot]).write(folder)
    os.chown(path, pwd.getpwnam(user).pw_uid, -1)
    return path


@needs_root
def test_a_slot_of_its_owners_process_counts_without_a_remark(
    source: CounterSource, tmp_path: Path, spawn_as: SpawnAs
) -> None:
    written(tmp_path, VICTIM, spawn_as(VICTIM), HELD)

    (device,) = source.read().devices

    assert device.in_use == Amounts(HELD)
    assert device.remarks == ()


@needs_root
def test_a_slot_of_another_users_process_is_unverified_and_in_no_sum(
    source: CounterSource, tmp_path: Path, spawn_as: SpawnAs
) -> None:
    pid = spawn_as(VICTIM)
    written(tmp_path, OTHER, pid, FORGED)

    (device,) = source.read().devices

    assert device.in_use == Amounts()
    assert [(process.pid, process.owner) for process in device.processes] == [
        (pid, Owner.UNVERIFIED)
    ]
    (remark,) = [remark for remark in device.remarks if remark.kind == "unverified"]
    assert remark.pid == pid
    assert f"belongs to user {VICTIM}, and the file to user {OTHER}" in remark.text


@needs_root
def test_a_process_of_root_in_another_users_file_is_counted_and_marked(
    source: CounterSource, tmp_path: Path
) -> None:
    written(tmp_path, OTHER, os.getpid(), HELD)

    (device,) = source.read().devices

    assert device.in_use == Amounts(HELD)
    assert [process.owner for process in device.processes] == [Owner.ROOT]
    assert "root_in_region" in [remark.kind for remark in device.remarks]


@needs_root
def test_nobody_adds_to_what_another_users_process_holds(tmp_path: Path, spawn_as: SpawnAs) -> None:
    pid = spawn_as(VICTIM)
    written(tmp_path, VICTIM, pid, HELD)
    written(tmp_path, OTHER, pid, FORGED, number=OWN_CHIP + 1)

    with closing(LocalFeed(str(tmp_path))) as feed:
        picture = feed.read()

    (process,) = picture.processes
    assert (process.user, sum(held.dram for held in process.devices.values())) == (VICTIM, HELD)
    assert sum(device.memory.dram.held for device in picture.devices) == HELD
    assert picture.left_behind == ()


@needs_root
def test_what_a_dead_process_left_is_told_under_the_name_of_the_files_owner(
    tmp_path: Path,
) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    written(tmp_path, OTHER, gone.pid, HELD)

    with closing(LocalFeed(str(tmp_path))) as feed:
        (left,) = feed.read().left_behind

    assert (left.pid, left.user, left.ghost) == (gone.pid, OTHER, True)


def test_a_file_with_a_second_name_is_skipped(source: CounterSource, tmp_path: Path) -> None:
    path = Written(slots=[Slot(os.getpid(), (HELD, 0, 0, 0, 0))]).write(tmp_path)
    os.link(path, tmp_path / "second")

    reading = source.read()

    assert reading.devices == ()
    assert [remark.kind for remark in reading.remarks] == ["not_a_region"]
    assert "2 names" in reading.remarks[0].text


@needs_root
def test_the_processes_of_one_user_take_no_more_than_their_share_of_a_walk(
    spawn_as: SpawnAs,
) -> None:
    # given a process of another user, and no time left for that user
    pid = spawn_as(OTHER)
    uid = user_id(pid)
    share = ProcBudget(0.0)

    # when all processes are looked at
    found = scan_proc(budget=share)

    # then that one is passed over, root's are not, and it is told
    assert found.skipped.get(uid, 0) >= 1
    assert 0 not in found.skipped
    remarks = [each.text for each in silent_processes(found, (), ProcessStates())]
    assert any(f"the processes of user {OTHER} take long to examine" in text for text in remarks)


@needs_root
def test_files_of_one_user_hide_no_device_of_another_and_what_is_left_out_is_said(
    source: CounterSource, tmp_path: Path, spawn_as: SpawnAs
) -> None:
    # given: files of the right size, with lower numbers than the one that counts
    for number in range(MAX_DEVICES + 10):
        written(tmp_path, OTHER, os.getpid(), FORGED, number=number)
    last = MAX_DEVICES + 100
    written(tmp_path, VICTIM, spawn_as(VICTIM), HELD, number=last)

    reading = source.read()

    held = {device.unique_id: device.in_use for device in reading.devices}
    assert held[str(last)] == Amounts(HELD)
    assert len(held) == MOST_PER_USER + 1
    (remark,) = [remark.text for remark in reading.remarks if remark.kind == "too_many"]
    beyond = MAX_DEVICES + 10 - MOST_PER_USER
    assert f"{beyond:,} more files tt_device_*_memory of user {OTHER}" in remark


@needs_root
def test_further_names_of_a_file_are_not_charged_to_its_owner(
    source: CounterSource, tmp_path: Path, spawn_as: SpawnAs
) -> None:
    # given: a file of the victim that somebody else has given many more names
    file = written(tmp_path, VICTIM, os.getpid(), FORGED, number=0)
    for number in range(1, 10 * MOST_PER_USER):
        os.link(file, tmp_path / f"tt_device_{number}_memory")
    own = range(10_000, 10_010)
    pid = spawn_as(VICTIM)
    for number in own:
        written(tmp_path, VICTIM, pid, HELD, number=number)

    assert {device.unique_id for device in source.read().devices} == set(map(str, own))
