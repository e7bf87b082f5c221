"""Ghosts are removed, and live processes are not affected."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from tests.clean.conftest import Mapper, Planner, Start
from tests.sources.region_writer import Slot, Written
from ttmem.clean.backup import Backups
from ttmem.clean.execution import carry_out
from ttmem.clean.planning import ClearSlots, RemoveRegion
from ttmem.events import Amounts, Owner
from ttmem.sources.counters.source import CounterSource

HELD = (4096, 2048, 0, 0, 512)
ROW = 120
FIRST_ROW = 856
TABLE = slice(FIRST_ROW, FIRST_ROW + 64 * ROW)


def _folder(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.iterdir()}


def test_a_dry_run_changes_nothing(
    shm: Path, plan: Planner, living: Start, dead: Start, mapping: Mapper
) -> None:
    Written(number=1001, slots=[Slot(living(), HELD), Slot(dead(), HELD)]).write(shm)
    Written(number=1002, slots=[Slot(dead(), HELD)]).write(shm)
    mapping(Written(number=1003, slots=[Slot(dead(), HELD)]).write(shm))
    before = _folder(shm)

    steps = plan().steps

    assert [type(step) for step in steps] == [ClearSlots, RemoveRegion, ClearSlots]
    assert _folder(shm) == before


@pytest.mark.parametrize(
    ("version", "kernel_size"), [(1, None), (1, 9280), (1, 9248), (2, None), (3, None)]
)
def test_in_a_region_with_a_live_owner_only_dead_rows_are_cleared(
    version: int,
    kernel_size: int | None,
    shm: Path,
    plan: Planner,
    backups: Backups,
    living: Start,
    dead: Start,
) -> None:
    keeper, ghosts = living(), [dead(), dead()]
    slots = [Slot(pid, HELD, kernels=99) for pid in (ghosts[0], keeper, ghosts[1])]
    path = Written(version=version, slots=slots, references=3, kernel_size=kernel_size).write(shm)
    first, row = (856, 120) if kernel_size is None else (992, 128)
    before, inode = path.read_bytes(), path.stat().st_ino

    outcomes, backup = carry_out(plan(), backups)

    after = path.read_bytes()
    expected = bytearray(before)
    expected[first : first + row] = bytes(row)
    expected[first + 2 * row : first + 3 * row] = bytes(row)
    assert [outcome.problem for outcome in outcomes] == [None]
    assert backup is not None
    assert (after, path.stat().st_ino) == (bytes(expected), inode)


def test_after_cleaning_exactly_the_living_are_listed(
    shm: Path, plan: Planner, backups: Backups, living: Start, dead: Start
) -> None:
    keeper = living()
    Written(slots=[Slot(dead(), HELD), Slot(keeper, HELD), Slot(dead(), HELD)]).write(shm)

    carry_out(plan(), backups)

    (device,) = CounterSource(str(shm)).read().devices
    assert [(each.pid, each.owner) for each in device.processes] == [(keeper, Owner.LIVE)]
    assert device.in_use == Amounts(*HELD)


def test_a_region_that_is_mapped_stays_though_it_names_only_the_dead(
    shm: Path, plan: Planner, backups: Backups, dead: Start, mapping: Mapper
) -> None:
    path = Written(slots=[Slot(dead(), HELD)]).write(shm)
    mapping(path)

    carry_out(plan(), backups)

    assert path.read_bytes()[TABLE] == bytes(64 * ROW)


def test_a_region_that_nobody_uses_is_removed(
    shm: Path, plan: Planner, backups: Backups, dead: Start
) -> None:
    Written(slots=[Slot(dead(), HELD)]).write(shm)

    outcomes, _ = carry_out(plan(), backups)

    assert [outcome.problem for outcome in outcomes] == [None]
    assert _folder(shm) == {}


def test_a_ghost_with_impossible_figures_is_cleared_too(
    shm: Path, plan: Planner, backups: Backups, living: Start, dead: Start
) -> None:
    wrapped = (2**64 - 4096, 0, 0, 0, 0)
    path = Written(
        slots=[Slot(living(), HELD), Slot(dead(), wrapped)], totals=HELD, chips=[(0, HELD)]
    ).write(shm)

    carry_out(plan(), backups)

    assert path.read_bytes()[FIRST_ROW + ROW : FIRST_ROW + 2 * ROW] == bytes(ROW)


def test_a_sound_region_in_use_is_not_mentioned(shm: Path, plan: Planner, living: Start) -> None:
    Written(slots=[Slot(living(), HELD)]).write(shm)

    assert (plan().steps, plan().left) == ((), ())


def test_layout_4_in_use_is_left_to_its_runtime(
    shm: Path, plan: Planner, living: Start, dead: Start
) -> None:
    Written(version=4, slots=[Slot(living(), HELD), Slot(dead(), HELD)]).write(shm)

    assert plan().steps == ()
    (left,) = plan().left
    assert "its runtime clears them itself" in left.reason


def test_layout_4_that_nobody_uses_is_removed(shm: Path, plan: Planner, dead: Start) -> None:
    Written(version=4, slots=[Slot(-1, HELD), Slot(dead(), HELD)]).write(shm)

    assert [type(step) for step in plan().steps] == [RemoveRegion]


def test_a_row_that_was_written_to_since_the_plan_is_left_alone(
    shm: Path, plan: Planner, backups: Backups, living: Start, dead: Start
) -> None:
    path = Written(slots=[Slot(living(), HELD), Slot(dead(), HELD), Slot(dead(), HELD)]).write(shm)
    made = plan()
    with open(path, "r+b") as file:
        file.seek(FIRST_ROW + ROW + 8)
        file.write(struct.pack("<Q", 8192))

    ((outcome,), _) = carry_out(made, backups)

    assert isinstance(outcome.did, ClearSlots)
    assert [slot.index for slot in outcome.did.slots] == [2]
    assert outcome.problem == "has changed in 1 of 2 rows, which were left alone"
    table = path.read_bytes()[TABLE]
    assert struct.unpack_from("<Q", table, ROW + 8) == (8192,)
    assert table[2 * ROW : 3 * ROW] == bytes(ROW)


def test_a_region_that_is_mapped_after_the_plan_stays(
    shm: Path, plan: Planner, backups: Backups, dead: Start, mapping: Mapper
) -> None:
    path = Written(slots=[Slot(dead(), HELD)]).write(shm)
    made = plan()
    mapping(path)

    ((outcome,), backup) = carry_out(made, backups)

    assert outcome.problem is not None
    assert path.exists()
    assert backup is None
    assert backups.ids() == []


def test_a_region_that_was_replaced_after_the_plan_stays(
    shm: Path, plan: Planner, backups: Backups, dead: Start
) -> None:
    path = Written(slots=[Slot(dead(), HELD)]).write(shm)
    made = plan()
    path.rename(shm / "kept so that its inode is not given away")
    path = Written(slots=[Slot(dead(), HELD)]).write(shm)

    ((outcome,), _) = carry_out(made, backups)

    assert outcome.problem == "has been replaced"
    assert path.exists()


def test_a_region_that_is_gone_is_no_disaster(
    shm: Path, plan: Planner, backups: Backups, dead: Start
) -> None:
    path = Written(slots=[Slot(dead(), HELD)]).write(shm)
    made = plan()
    path.unlink()

    ((outcome,), _) = carry_out(made, backups)

    assert outcome.problem == "cannot be opened: No such file or directory"


def test_a_younger_process_with_the_pid_that_maps_the_region_keeps_the_row(
    shm: Path, plan: Planner, mapping: Mapper
) -> None:
    path = Written().write(shm)
    pid = mapping(path)
    with open(path, "r+b") as file:  # as its namesake left it, long before
        file.seek(FIRST_ROW)
        file.write(struct.pack("<i4x5QQ64s", pid, *HELD, 1 << 60, b"python"))

    assert plan().steps == ()


def test_nothing_remains_in_the_folder_but_what_was_there(
    shm: Path, plan: Planner, backups: Backups, dead: Start, mapping: Mapper
) -> None:
    (shm / "sem.other").write_bytes(b"x")
    kept = Written(number=1, slots=[Slot(dead(), HELD)]).write(shm)
    mapping(kept)
    Written(number=2).write(shm)

    carry_out(plan(), backups)

    assert sorted(os.listdir(shm)) == ["sem.other", kept.name]
