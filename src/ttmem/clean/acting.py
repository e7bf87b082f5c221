"""Doing the steps of a plan: each is judged again right before it is done, and backed up first."""

from __future__ import annotations

import os
from dataclasses import replace

from ttmem.clean.backup import Backup, Backups, file_entry, slots_entry
from ttmem.clean.slots import clear_row, judge_rows, owner_of, row
from ttmem.clean.steps import ClearSlots, DeadSlot, Outcome, Plan, RemoveProbe, RemoveRegion, Step
from ttmem.errors import TtmemError
from ttmem.sources.lease import Lease, Use, leased
from ttmem.sources.owned_files import Changed, OpenFile, opened, remove
from ttmem.sources.shared_memory import scan_holders
from ttmem.sources.shared_memory.layout import LAYOUTS
from ttmem.sources.shared_memory.lives import Lives
from ttmem.sources.socket_listener import remove_stale


def carry_out(plan: Plan, backups: Backups) -> tuple[tuple[Outcome, ...], Backup | None]:
    """What became of each step, and the backup, if anything needed one."""
    if not plan.steps:
        return (), None
    backup = backups.begin()
    outcomes = tuple(_outcome(step, backup) for step in plan.steps)
    return outcomes, backup if backup.entries else None


def _outcome(step: Step, backup: Backup) -> Outcome:
    try:
        if isinstance(step, ClearSlots):
            return _clear(step, backup)
        if isinstance(step, RemoveRegion):
            _remove_region(step, backup)
        elif isinstance(step, RemoveProbe):
            _remove_probe(step, backup)
        elif os.path.lexists(step.path):
            remove_stale(step.path)
        else:
            raise Changed("was removed by somebody else meanwhile")
    except (Changed, TtmemError) as problem:
        return Outcome(step, None, str(problem))
    except OSError as problem:
        return Outcome(step, None, f"failed: {problem.strerror}")
    return Outcome(step, step)


def _clear(step: ClearSlots, backup: Backup) -> Outcome:
    cleared: list[DeadSlot] = []
    problem = None
    with opened(step.path, step.key) as file:
        _check_size(file, step.size)
        holders, lives, layout = scan_holders(), Lives(), LAYOUTS[step.size]
        entry = slots_entry(step)
        backup.keep(entry, file.descriptor)
        for slot in step.slots:
            owner = owner_of(layout, slot.raw, step.key, lives, holders)
            # The last look before the write: nothing of this row may have moved since the plan.
            still = row(file.descriptor, layout, slot.index) == slot.raw
            if not owner or owner.counts or not still:
                continue
            try:
                clear_row(file.descriptor, layout, slot.index)
            except OSError as failure:  # the backup stays: part of the row may be gone
                return Outcome(step, _part(step, cleared), f"failed: {failure.strerror}")
            cleared.append(slot)
        if not cleared:
            backup.forget(entry)
    kept = len(step.slots) - len(cleared)
    if not cleared:
        problem = "has changed in all rows that were to be cleared"
    elif kept:
        problem = f"has changed in {kept} of {len(step.slots)} rows, which were left alone"
    return Outcome(step, _part(step, cleared), problem)


def _part(step: ClearSlots, cleared: list[DeadSlot]) -> ClearSlots | None:
    return replace(step, slots=tuple(cleared)) if cleared else None


def _remove_region(step: RemoveRegion, backup: Backup) -> None:
    with opened(step.path, step.key) as file, leased(file.descriptor) as lease:
        _check_size(file, len(step.data))
        if lease.use is Use.SOMEBODY:
            raise Changed("is used by a process now")
        if os.pread(file.descriptor, len(step.data), 0) != step.data:
            raise Changed("was written to meanwhile")
        if (
            lease.use is Use.UNKNOWN
            and judge_rows(step.data, step.key, Lives(), scan_holders()).live
        ):
            raise Changed("names a process that lives now")
        _remove(file, lease, backup)


def _remove_probe(step: RemoveProbe, backup: Backup) -> None:
    with opened(step.path, step.key) as file, leased(file.descriptor) as lease:
        _check_size(file, step.size)
        if lease.use is Use.SOMEBODY:
            raise Changed("is used by a process now")
        _remove(file, lease, backup)


def _remove(file: OpenFile, lease: Lease, backup: Backup) -> None:
    entry = file_entry(file)
    backup.keep(entry, file.descriptor)
    try:
        remove(file, lease)
    except (Changed, OSError):
        backup.forget(entry)
        raise


def _check_size(file: OpenFile, size: int) -> None:
    if file.status.st_size != size:
        raise Changed("changed its size meanwhile")
