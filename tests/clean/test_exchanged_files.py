"""Another user replaces files and directories while root cleans: only what was checked is touched."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import socket
import sys
from pathlib import Path

import pytest

from tests.clean.conftest import Planner, Start
from tests.doctor.hosts import write_probe_region
from tests.other_user import OTHER, needs_root
from tests.own_process import ran
from tests.sources.region_writer import Slot, Written
from ttmem.clean.backup import Backups
from ttmem.clean.execution import Restored, carry_out, undo
from ttmem.clean.planning import Plan, RemoveSocket
from ttmem.errors import BadInput
from ttmem.sources.owned_files import Changed, leased, opened, remove

HELD = (4096, 2048, 0, 0, 512)
TEBIBYTE = 1 << 40


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    return folder


def _exchange(folder: Path, other: Path, how: str) -> Path:
    """`folder` leads to what is in `other` from now on; returns where its own files are."""
    moved = folder.with_name("moved")
    folder.rename(moved)
    if how == "link":
        folder.symlink_to(other)
    else:
        other.rename(folder)
    return moved


@pytest.mark.parametrize("how", ["link", "folder"])
def test_a_folder_exchanged_before_the_removal_costs_nobody_elsewhere_a_file(
    how: str, shm: Path, elsewhere: Path, dead: Start
) -> None:
    path = Written(slots=[Slot(dead(), HELD)]).write(shm)
    live = Written(references=7).write(elsewhere)
    before, inode = live.read_bytes(), live.stat().st_ino

    with opened(str(path)) as there, leased(there.descriptor) as lease:
        moved = _exchange(shm, elsewhere, how)
        remove(there, lease)

    assert (path.read_bytes(), path.stat().st_ino) == (before, inode)
    assert os.listdir(moved) == []


@pytest.mark.parametrize("how", ["link", "folder"])
def test_a_folder_exchanged_after_the_plan_is_left_as_it_is(
    how: str, shm: Path, elsewhere: Path, plan: Planner, backups: Backups, dead: Start
) -> None:
    path = Written(slots=[Slot(dead(), HELD)]).write(shm)
    Written(slots=[Slot(dead(), HELD)]).write(elsewhere)
    made = plan()
    moved = _exchange(shm, elsewhere, how)

    ((outcome,), backup) = carry_out(made, backups)

    assert (outcome.did, outcome.problem, backup) == (None, "has been replaced", None)
    assert os.listdir(shm) == os.listdir(moved) == [path.name]


def test_a_file_that_takes_the_place_before_the_removal_stays_under_its_name(
    shm: Path, dead: Start
) -> None:
    path = Written(slots=[Slot(dead(), HELD)]).write(shm)
    with opened(str(path)) as there, leased(there.descriptor) as lease:
        path.rename(shm / "first")
        new = Written(references=7).write(shm)
        inode = new.stat().st_ino
        with pytest.raises(Changed, match="has been replaced"):
            remove(there, lease)

    assert new.stat().st_ino == inode
    assert sorted(os.listdir(shm)) == ["first", new.name]


def test_what_takes_the_place_of_a_judged_file_is_never_followed_nor_waited_for(
    shm: Path, elsewhere: Path, plan: Planner, backups: Backups, dead: Start
) -> None:
    paths = [Written(number=n, slots=[Slot(dead(), HELD)]).write(shm) for n in (1, 2, 3)]
    target = Written(slots=[Slot(dead(), HELD)]).write(elsewhere)
    made = plan()
    for path in paths:
        path.rename(elsewhere / path.name)  # so that no inode is given away again
    link, pipe, second = paths
    link.symlink_to(target)
    os.mkfifo(pipe)
    second.hardlink_to(elsewhere / second.name)

    outcomes, backup = carry_out(made, backups)

    assert [outcome.problem for outcome in outcomes] == [
        "is a symbolic link",
        "has been replaced",
        "has a second name (hard link), so it may be somebody else's",
    ]
    assert backup is None
    assert len(os.listdir(shm)) == 3
    assert len(os.listdir(elsewhere)) == 4


def test_a_region_with_a_second_name_is_left_alone(
    shm: Path, elsewhere: Path, plan: Planner, dead: Start
) -> None:
    path = Written(slots=[Slot(dead(), HELD)]).write(elsewhere)
    (shm / path.name).hardlink_to(path)
    probe = write_probe_region(elsewhere, dead())
    (shm / probe.name).hardlink_to(probe)

    made = plan()

    assert made.steps == ()
    assert made.refuses(str(shm / path.name)) is not None


def test_a_sparse_file_of_a_tebibyte_is_left_alone_unread(
    shm: Path, plan: Planner, dead: Start
) -> None:
    path = write_probe_region(shm, dead())
    os.truncate(path, TEBIBYTE)

    made = plan()

    assert made.steps == ()
    assert [left.reason for left in made.left] == [
        f"{path.name}: has 1.0 TiB, more than any region has (1.0 GiB)"
    ]


def test_a_file_that_grows_to_a_tebibyte_after_the_plan_is_not_read(
    shm: Path, plan: Planner, backups: Backups, dead: Start
) -> None:
    path = write_probe_region(shm, dead())
    made = plan()
    os.truncate(path, TEBIBYTE)

    ((outcome,), _) = carry_out(made, backups)

    assert (outcome.did, outcome.problem) == (None, "has changed size")
    assert path.stat().st_size == TEBIBYTE


def test_a_copy_of_a_sparse_file_takes_no_more_room_than_the_file(
    shm: Path, plan: Planner, backups: Backups, dead: Start
) -> None:
    path = write_probe_region(shm, dead())
    os.truncate(path, 1 << 30)

    ((outcome,), backup) = carry_out(plan(), backups)

    assert outcome.problem is None
    assert backup is not None
    (copy,) = backup.folder.glob("*.bin")
    assert copy.stat().st_size == 1 << 30
    assert copy.stat().st_blocks * 512 <= 2 << 20


@pytest.mark.parametrize("how", ["link", "folder"])
def test_undo_writes_only_into_the_folder_that_the_file_came_from(
    how: str, shm: Path, elsewhere: Path, plan: Planner, backups: Backups, dead: Start
) -> None:
    Written(slots=[Slot(dead(), HELD)]).write(shm)
    carry_out(plan(), backups)
    elsewhere.chmod(0o700)
    _exchange(shm, elsewhere, how)

    (restored,) = undo(backups.open())

    assert restored.problem == f"was in another directory than the one that is now at {shm}"
    assert os.listdir(shm) == []
    assert len(backups.ids()) == 1


def test_undo_leaves_whatever_has_the_name_now(
    shm: Path, elsewhere: Path, plan: Planner, backups: Backups, dead: Start
) -> None:
    paths = [Written(number=n, slots=[Slot(dead(), HELD)]).write(shm) for n in (1, 2)]
    carry_out(plan(), backups)
    paths[0].symlink_to(elsewhere / "new")
    os.mkfifo(paths[1])

    outcomes = undo(backups.open())

    taken = "there is a new file of that name, which was left alone"
    assert outcomes == tuple(Restored(str(path), taken) for path in paths)
    assert os.listdir(elsewhere) == []
    assert len(os.listdir(shm)) == 2


def test_rows_go_back_into_no_file_that_has_a_second_name(
    shm: Path, elsewhere: Path, plan: Planner, backups: Backups, dead: Start
) -> None:
    path = Written(slots=[Slot(dead(), HELD)]).write(shm)
    with path.open("r+b"):  # in use, so that only the row is cleared
        carry_out(plan(), backups)
    cleared = path.read_bytes()
    (elsewhere / "second").hardlink_to(path)

    (restored,) = undo(backups.open())

    assert restored.problem is not None
    assert path.read_bytes() == cleared


@pytest.mark.parametrize("how", ["link", "second name", "pipe", "tebibyte"])
def test_a_copy_that_was_exchanged_does_not_come_back(
    how: str, shm: Path, elsewhere: Path, plan: Planner, backups: Backups, dead: Start
) -> None:
    path = Written(slots=[Slot(dead(), HELD)]).write(shm)
    secret = elsewhere / "secret"
    secret.write_text("secret")
    _, backup = carry_out(plan(), backups)
    assert backup is not None
    (copy,) = backup.folder.glob("*.bin")
    copy.unlink()
    if how == "link":
        copy.symlink_to(secret)
    elif how == "second name":
        copy.hardlink_to(secret)
    elif how == "pipe":
        os.mkfifo(copy)
    else:
        copy.touch()
        os.truncate(copy, TEBIBYTE)

    (restored,) = undo(backups.open())

    assert restored.problem is not None
    assert not path.exists()


def test_nothing_is_cleaned_if_others_can_write_to_the_backups(
    shm: Path, plan: Planner, backups: Backups, dead: Start
) -> None:
    path = Written(slots=[Slot(dead(), HELD)]).write(shm)
    backups.folder.mkdir()
    backups.folder.chmod(0o777)

    ((outcome,), backup) = carry_out(plan(), backups)

    assert outcome.problem is not None
    assert f"other users can write to {backups.folder}" in outcome.problem
    assert backup is None
    assert path.exists()


def test_nothing_is_undone_from_a_folder_that_others_can_write_to(
    shm: Path, plan: Planner, backups: Backups, dead: Start
) -> None:
    path = Written(slots=[Slot(dead(), HELD)]).write(shm)
    _, backup = carry_out(plan(), backups)
    assert backup is not None
    backup.folder.chmod(0o777)

    with pytest.raises(BadInput, match="other users can write to"):
        backups.open()
    assert not path.exists()


@needs_root
@pytest.mark.parametrize("whose", ["folder", "run", "manifest"])
def test_root_does_not_undo_what_another_user_says_was_cleaned(
    whose: str, shm: Path, plan: Planner, backups: Backups, dead: Start
) -> None:
    path = Written(slots=[Slot(dead(), HELD)]).write(shm)
    _, backup = carry_out(plan(), backups)
    assert backup is not None
    run = backup.folder
    given = {"folder": backups.folder, "run": run, "manifest": run / "manifest.json"}[whose]
    os.chown(given, pwd.getpwnam(OTHER).pw_uid, -1)

    with pytest.raises(BadInput, match="cannot be used"):
        backups.open()
    assert not path.exists()


@needs_root
def test_root_keeps_no_backup_where_another_users_link_leads(
    shm: Path, elsewhere: Path, plan: Planner, tmp_path: Path, dead: Start
) -> None:
    path = Written(slots=[Slot(dead(), HELD)]).write(shm)
    link = tmp_path / "link"
    link.symlink_to(elsewhere)
    os.chown(link, pwd.getpwnam(OTHER).pw_uid, -1, follow_symlinks=False)

    ((outcome,), backup) = carry_out(plan(), Backups(link / "state"))

    assert outcome.problem is not None
    assert f"'link' on this path belongs to user {OTHER}" in outcome.problem
    assert backup is None
    assert os.listdir(elsewhere) == []
    assert path.exists()


def test_a_backup_may_be_kept_behind_a_link_of_ones_own(
    shm: Path, elsewhere: Path, plan: Planner, tmp_path: Path, dead: Start
) -> None:
    path = Written(slots=[Slot(dead(), HELD)]).write(shm)
    (tmp_path / "far").symlink_to(elsewhere)
    (tmp_path / "near").symlink_to("far")
    backups = Backups(tmp_path / "near" / "state")

    carry_out(plan(), backups)
    gone = not path.exists()
    (restored,) = undo(backups.open())

    assert gone
    assert restored.problem is None
    assert path.exists()


@needs_root
@pytest.mark.skipif(shutil.which("unshare") is None, reason="util-linux is not installed")
def test_with_a_full_disk_for_the_backup_nothing_is_done_and_nothing_is_left_there(
    shm: Path, tmp_path: Path, dead: Start
) -> None:
    paths = [Written(number=n, slots=[Slot(dead(), HELD)]).write(shm) for n in (1, 2)]
    paths.append(write_probe_region(shm, dead()))
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    clean = [sys.executable, "-m", "ttmem", "clean", "--shm", str(shm), "--force", "--yes"]
    script = (
        f"mount -t tmpfs -o size=64k,mode=700 tmpfs {state} && "
        f"dd if=/dev/zero of={state}/fill bs=4k count=15 2>/dev/null; "
        f'"$@"; code=$?; find {state} -type f; exit $code'
    )

    done = ran(
        ["unshare", "--mount", "sh", "-c", script, "sh", *clean, "--json"],
        env={**os.environ, "XDG_STATE_HOME": str(state)},
    )

    document, end = json.JSONDecoder().raw_decode(done.stdout)
    assert done.returncode == 1, done.stderr
    assert [step["done"] for step in document["steps"]] == [False] * 3
    assert all("(No space left on device)" in step["problem"] for step in document["steps"])
    assert document["backup"] is None
    assert done.stdout[end:].split() == [f"{state}/fill"]
    assert all(path.exists() for path in paths)


def test_a_socket_that_somebody_else_removed_is_not_reported_as_removed(
    tmp_path: Path, backups: Backups
) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as gone:
        gone.bind(str(path))
    path.unlink()

    ((outcome,), _) = carry_out(Plan((RemoveSocket(str(path)),), ()), backups)

    assert (outcome.did, outcome.problem) == (None, "was removed by another process")
