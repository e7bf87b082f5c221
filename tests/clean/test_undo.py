"""Undo restores what was removed, byte for byte, unless a live process would be affected."""

from __future__ import annotations

import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from tests.clean.conftest import Mapper, Planner, Start
from tests.sources.region_writer import Slot, Written
from ttmem.clean.backup import Backup, Backups
from ttmem.clean.execution import carry_out, undo
from ttmem.errors import BadInput, TtmemError

HELD = (4096, 2048, 0, 0, 512)


STOCK = Written()
WITH_KERNELS = Written(number=469504, version=1, kernel_size=9280)
UNALIGNED = Written(number=469504, version=1, kernel_size=9248)
LAYOUTS = pytest.mark.parametrize("layout", [STOCK, WITH_KERNELS, UNALIGNED])


@LAYOUTS
def test_a_removed_region_comes_back_as_it_was(
    layout: Written, shm: Path, plan: Planner, backups: Backups, dead: Start
) -> None:
    path = replace(layout, slots=[Slot(dead(), HELD, kernels=99)]).write(shm)
    path.chmod(0o640)
    before = path.read_bytes()
    carry_out(plan(), backups)

    (restored,) = undo(backups.open())

    assert restored.problem is None
    assert path.read_bytes() == before
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert backups.ids() == []


@LAYOUTS
def test_cleared_rows_come_back_once_the_region_is_free(
    layout: Written, shm: Path, plan: Planner, backups: Backups, dead: Start
) -> None:
    path = replace(layout, slots=[Slot(dead(), HELD, kernels=99)]).write(shm)
    before = path.read_bytes()
    with path.open("r+b"):  # in use, so that only the row is cleared
        carry_out(plan(), backups)
    cleared = path.read_bytes()

    (restored,) = undo(backups.open())

    assert restored.problem is None
    assert cleared != before
    assert path.read_bytes() == before


def test_rows_of_a_region_in_use_do_not_come_back_and_can_be_tried_again(
    shm: Path, plan: Planner, backups: Backups, dead: Start, mapping: Mapper
) -> None:
    path = Written(slots=[Slot(dead(), HELD)]).write(shm)
    mapping(path)
    carry_out(plan(), backups)
    cleared = path.read_bytes()

    (restored,) = undo(backups.open())

    assert restored.problem is not None
    assert "is in use by a live process" in restored.problem
    assert path.read_bytes() == cleared
    assert len(backups.ids()) == 1


def test_a_new_region_of_the_same_name_is_not_overwritten(
    shm: Path, plan: Planner, backups: Backups, dead: Start
) -> None:
    Written(slots=[Slot(dead(), HELD)]).write(shm)
    carry_out(plan(), backups)
    new = Written(references=7).write(shm)
    before = new.read_bytes()

    (restored,) = undo(backups.open())

    assert restored.problem == "there is a new file of that name, which was left alone"
    assert new.read_bytes() == before


def test_the_latest_run_is_undone_first(
    shm: Path, plan: Planner, backups: Backups, dead: Start
) -> None:
    first = Written(number=1, slots=[Slot(dead(), HELD)]).write(shm)
    carry_out(plan(), backups)
    second = Written(number=2, slots=[Slot(dead(), HELD)]).write(shm)
    carry_out(plan(), backups)

    undo(backups.open())

    assert (first.exists(), second.exists()) == (False, True)


def test_there_is_a_sentence_for_every_backup_that_cannot_be_used(backups: Backups) -> None:
    with pytest.raises(BadInput, match="nothing to undo"):
        backups.open()
    with pytest.raises(BadInput, match="no backup 'x'; known are: none"):
        backups.open("x")
    for number, text in enumerate(["", "[]", "{}", '{"schema": "other"}', "\x00", "nul"]):
        (backups.folder / str(number)).mkdir(parents=True)
        (backups.folder / str(number) / "manifest.json").write_text(text)
        with pytest.raises(BadInput, match="cannot be used"):
            backups.open(str(number))


def test_a_forged_entry_is_a_problem_and_no_crash(backups: Backups, tmp_path: Path) -> None:
    backup = backups.begin()
    entries = [{}, {"copy": "x", "kind": "file"}, {"copy": "x", "kind": "odd", "path": "y"}]
    backup.folder.mkdir(parents=True)
    backup.entries += entries

    outcomes = undo(backup)

    assert all(outcome.problem for outcome in outcomes)


def test_what_cannot_be_backed_up_is_not_touched(
    shm: Path, plan: Planner, tmp_path: Path, dead: Start
) -> None:
    (tmp_path / "state").write_text("a file where the folder should be")
    path = Written(slots=[Slot(dead(), HELD)]).write(shm)

    ((outcome,), backup) = carry_out(plan(), Backups(tmp_path / "state"))

    assert outcome.problem is not None
    assert "cannot be backed up" in outcome.problem
    assert backup is None
    assert path.exists()


def test_backups_of_over_a_month_ago_are_removed_when_a_new_one_begins(
    shm: Path, plan: Planner, backups: Backups, dead: Start
) -> None:
    Written(slots=[Slot(dead(), HELD)]).write(shm)
    carry_out(plan(), backups)
    (old,) = backups.ids()
    os.utime(backups.folder / old / "manifest.json", (1.0, 1.0))

    backups.begin()

    assert backups.ids() == []


def test_a_run_in_the_same_second_leaves_the_backup_of_another_one_alone(tmp_path: Path) -> None:
    source = tmp_path / "region"
    source.write_bytes(b"held")
    first, second = backups_of_one_second(tmp_path / "backups")
    with source.open("rb") as file:
        first.keep({"kind": "file", "path": "one"}, file.fileno())
        with pytest.raises(TtmemError, match="left as it is"):
            second.keep({"kind": "file", "path": "two"}, file.fileno())

    assert [entry["path"] for entry in Backups(tmp_path / "backups").open().entries] == ["one"]
    assert (first.folder / "0.bin").read_bytes() == b"held"


def backups_of_one_second(folder: Path) -> tuple[Backup, Backup]:
    while True:
        both = Backups(folder).begin(), Backups(folder).begin()
        if both[0].folder == both[1].folder:
            return both
