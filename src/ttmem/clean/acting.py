"""Doing the steps of a plan: each is judged again right before it is done, and backed up first."""

from __future__ import annotations

import os

from ttmem.clean.backup import Backup, Backups, file_entry, slots_entry
from ttmem.clean.lease import Use, leased
from ttmem.clean.open_file import Changed, opened
from ttmem.clean.removal import remove
from ttmem.clean.slots import clear_row, judge_rows, owner_of, row
from ttmem.clean.steps import (
    ClearSlots,
    Outcome,
    Plan,
    RemoveProbe,
    RemoveRegion,
    Step,
)
from ttmem.errors import TtmemError
from ttmem.sources.shared_memory import scan_holders
from ttmem.sources.shared_memory.layout import LAYOUTS
from ttmem.sources.shared_memory.lives import Lives
from ttmem.sources.socket_listener import remove_stale


def carry_out(plan: Plan, backups: Backups) -> tuple[tuple[Outcome, ...], Backup | None]:
    """What became of each step, and the backup, if anything needed one."""
    if not plan.steps:
        return (), None
    backup = backups.begin()
    outcomes = []
    for step in plan.steps:
        outcomes.append(_outcome(step, backup))
    return tuple(outcomes), backup if backup.entries else None


def _outcome(step: Step, backup: Backup) -> Outcome:
    try:
        if isinstance(step, ClearSlots):
            _clear(step, backup)
        elif isinstance(step, RemoveRegion):
            _remove_region(step, backup)
        elif isinstance(step, RemoveProbe):
            _remove_probe(step, backup)
        else:
            remove_stale(step.path)
    except (Changed, TtmemError) as problem:
        return Outcome(step, str(problem))
    except OSError as problem:
        return Outcome(step, f"failed: {problem.strerror}")
    return Outcome(step)


def _clear(step: ClearSlots, backup: Backup) -> None:
    with opened(step.path, step.key) as descriptor:
        _check_size(descriptor, step.size)
        holders, lives, layout = scan_holders(), Lives(), LAYOUTS[step.size]
        with backup.keeping(slots_entry(step), descriptor) as entry:
            cleared = []
            for slot in step.slots:
                owner = owner_of(layout, slot.raw, step.key, lives, holders)
                # The last look before the write: nothing of this row may have moved since the plan.
                still = row(descriptor, layout, slot.index) == slot.raw
                if owner and not owner.counts and still:
                    clear_row(descriptor, layout, slot.index)
                    cleared.append(slot.index)
            entry["slots"] = cleared
            if not cleared:
                raise Changed("all rows to clear changed meanwhile")
    kept = len(step.slots) - len(cleared)
    if kept:
        raise Changed(f"{kept} of {len(step.slots)} rows changed meanwhile and were left alone")


def _remove_region(step: RemoveRegion, backup: Backup) -> None:
    with opened(step.path, step.key) as descriptor, leased(descriptor) as lease:
        _check_size(descriptor, len(step.data))
        if lease.use is Use.SOMEBODY:
            raise Changed("is used by a process now")
        if os.pread(descriptor, len(step.data), 0) != step.data:
            raise Changed("was written to meanwhile")
        if (
            lease.use is Use.UNKNOWN
            and judge_rows(step.data, step.key, Lives(), scan_holders()).live
        ):
            raise Changed("names a process that lives now")
        with backup.keeping(file_entry(step.path, descriptor), descriptor):
            remove(step.path, step.key, lease)


def _remove_probe(step: RemoveProbe, backup: Backup) -> None:
    with opened(step.path, step.key) as descriptor, leased(descriptor) as lease:
        if lease.use is Use.SOMEBODY:
            raise Changed("is used by a process now")
        with backup.keeping(file_entry(step.path, descriptor), descriptor):
            remove(step.path, step.key, lease)


def _check_size(descriptor: int, size: int) -> None:
    if os.fstat(descriptor).st_size != size:
        raise Changed("changed its size meanwhile")
