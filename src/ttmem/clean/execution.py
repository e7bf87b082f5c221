"""Carries out a plan, and undoes it. Each step is checked again immediately before it is done, and backed up first."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, replace

from ttmem.clean.backup import Backup, Backups, Entry, boot_id, create
from ttmem.clean.planning import ClearSlots, Outcome, Plan, RemoveProbe, RemoveRegion, Step
from ttmem.clean.slots import DeadSlot, judge_rows, owner_of, row, row_in, write_row
from ttmem.errors import TtmemError
from ttmem.sources.counters.layout import LAYOUTS
from ttmem.sources.counters.proc_scan import scan_proc
from ttmem.sources.counters.process_states import ProcessStates
from ttmem.sources.owned_files import (
    Changed,
    OpenFile,
    Use,
    key_of,
    leased,
    opened,
    opened_folder,
    remove,
)
from ttmem.sources.socket.listener import remove_stale


def carry_out(plan: Plan, backups: Backups) -> tuple[tuple[Outcome, ...], Backup | None]:
    """The outcome of each step, and the backup if one was needed."""
    if not plan.steps:
        return (), None
    backup = backups.begin()
    outcomes = tuple(_outcome(step, backup) for step in plan.steps)
    return outcomes, backup if backup.entries else None


def _outcome(step: Step, backup: Backup) -> Outcome:
    try:
        if isinstance(step, ClearSlots):
            return _clear(step, backup)
        if isinstance(step, (RemoveRegion, RemoveProbe)):
            _remove(step, backup)
        elif os.path.lexists(step.path):
            remove_stale(step.path)
        else:
            raise Changed("was removed by another process")
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
        scan, states, layout = scan_proc(), ProcessStates(), LAYOUTS[step.size]
        slots = [slot.index for slot in step.slots]
        entry: Entry = {"kind": "slots", "path": step.path, "key": list(step.key), "slots": slots}
        backup.keep(entry, file.descriptor)
        for slot in step.slots:
            owner = owner_of(layout, slot.raw, step.key, states, scan)
            # The final check before the write: the row must be exactly as it was when the plan was made.
            still = row(file.descriptor, layout, slot.index) == slot.raw
            if not owner or owner.counts or not still:
                continue
            try:
                write_row(file.descriptor, layout, slot.index, bytes(layout.process.size))
            except OSError as failure:  # the backup stays, since part of the row may be gone
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


def _remove(step: RemoveRegion | RemoveProbe, backup: Backup) -> None:
    with opened(step.path, step.key) as file, leased(file.descriptor) as lease:
        _check_size(file, len(step.data) if isinstance(step, RemoveRegion) else step.size)
        if lease.use is Use.SOMEBODY:
            raise Changed("is used by a process now")
        if isinstance(step, RemoveRegion):
            if os.pread(file.descriptor, len(step.data), 0) != step.data:
                raise Changed("has been written to")
            if lease.use is Use.UNKNOWN:
                _, live = judge_rows(step.data, step.key, ProcessStates(), scan_proc())
                if live:
                    raise Changed("names a live process")
        entry: Entry = {
            "kind": "file",
            "path": file.path,
            "folder": list(key_of(os.fstat(file.folder))),
            "mode": stat.S_IMODE(file.status.st_mode),
            "uid": file.status.st_uid,
            "gid": file.status.st_gid,
        }
        backup.keep(entry, file.descriptor)
        try:
            remove(file, lease)
        except (Changed, OSError):
            backup.forget(entry)
            raise


def _check_size(file: OpenFile, size: int) -> None:
    if file.status.st_size != size:
        raise Changed("has changed size")


@dataclass(frozen=True, slots=True)
class Restored:
    """`problem` is None if it was restored."""

    path: str
    problem: str | None = None


def undo(backup: Backup) -> tuple[Restored, ...]:
    """Restores what it can without affecting live processes. The rest stays in the backup and can be retried."""
    outcomes = []
    for entry in list(backup.entries):
        path = str(entry.get("path"))
        try:
            _restore(entry, backup)
        except Changed as problem:
            outcomes.append(Restored(path, str(problem)))
        except (KeyError, TypeError, ValueError, OverflowError):
            outcomes.append(Restored(path, "has a damaged entry in the manifest"))
        except OSError as problem:
            outcomes.append(Restored(path, f"failed: {problem.strerror}"))
        else:
            outcomes.append(Restored(path))
            backup.forget(entry)
    return tuple(outcomes)


def _restore(entry: Entry, backup: Backup) -> None:
    restore = {"file": _restore_file, "slots": _restore_slots}[entry["kind"]]
    if backup.boot != boot_id():
        raise Changed(
            "was in memory before the machine was rebooted; the copy is "
            f"{backup.folder / os.path.basename(entry['copy'])}"
        )
    with backup.copy_of(entry) as saved:
        restore(entry, saved)


def _restore_file(entry: Entry, saved: int) -> None:
    """Only into the same directory as before, since the path may lead elsewhere now."""
    path, name = os.path.split(entry["path"])
    device, inode = entry["folder"]
    with opened_folder(path) as folder:
        if key_of(os.fstat(folder)) != (device, inode):
            raise Changed(f"was in another directory than the one that is now at {path}")
        owner = (entry["uid"], entry["gid"]) if os.geteuid() == 0 else None
        try:
            create(folder, name, saved, entry["mode"], owner)
        except FileExistsError:
            raise Changed("there is a new file of that name, which was left alone") from None


def _restore_slots(entry: Entry, saved: int) -> None:
    device, inode = entry["key"]
    key = (int(device), int(inode))
    layout = LAYOUTS.get(os.fstat(saved).st_size)
    with opened(entry["path"], key) as file, leased(file.descriptor) as lease:
        if layout is None or file.status.st_size != layout.size:
            raise Changed("has changed size")
        descriptor = file.descriptor
        image, now = (os.pread(each, layout.size, 0) for each in (saved, descriptor))
        if not len(image) == len(now) == layout.size:
            raise Changed("has changed size")
        scan = scan_proc()
        _, live = judge_rows(now, key, ProcessStates(), scan)
        if live or scan.mapped_by.get(key) or lease.use is Use.SOMEBODY:
            raise Changed("is in use by a live process, which may claim the rows at any moment")
        rows = {int(index): row_in(image, layout, int(index)) for index in entry["slots"]}
        # A row that was not cleared in the end still has its contents.
        gone = {index: raw for index, raw in rows.items() if row(descriptor, layout, index) != raw}
        if any(row(descriptor, layout, index)[:4] != bytes(4) for index in gone):
            raise Changed("another process has claimed the rows")
        for index, raw in gone.items():
            write_row(descriptor, layout, index, raw)
