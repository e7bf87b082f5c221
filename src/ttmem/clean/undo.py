"""Brings back what a run of `ttmem clean` took, where that hurts nobody."""

from __future__ import annotations

import os
from dataclasses import dataclass

from ttmem.clean.backup import Backup, Entry, boot_id
from ttmem.clean.files import create
from ttmem.clean.slots import judge_rows, row, row_in, write_row
from ttmem.sources.lease import Use, leased
from ttmem.sources.owned_files import Changed, folder_key, opened, opened_folder
from ttmem.sources.shared_memory import scan_holders
from ttmem.sources.shared_memory.layout import LAYOUTS
from ttmem.sources.shared_memory.lives import Lives


@dataclass(frozen=True, slots=True)
class Restored:
    """`problem` is None if it is as it was."""

    path: str
    problem: str | None = None


def undo(backup: Backup) -> tuple[Restored, ...]:
    """What was restored is forgotten; the rest can be tried again."""
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
            "was memory of before the machine was started anew; the copy is "
            f"{backup.folder / os.path.basename(entry['copy'])}"
        )
    with backup.copy_of(entry) as saved:
        restore(entry, saved)


def _restore_file(entry: Entry, saved: int) -> None:
    """Only into the very folder that it was in: its path may lead elsewhere by now."""
    path, name = os.path.split(entry["path"])
    device, inode = entry["folder"]
    with opened_folder(path) as folder:
        if folder_key(folder) != (device, inode):
            raise Changed(f"was in another folder than the one that is called {path} now")
        owner = (entry["uid"], entry["gid"]) if os.geteuid() == 0 else None
        try:
            create(folder, name, saved, entry["mode"], owner)
        except FileExistsError:
            raise Changed("there is a new file of that name, which is left as it is") from None


def _restore_slots(entry: Entry, saved: int) -> None:
    device, inode = entry["key"]
    key = (int(device), int(inode))
    layout = LAYOUTS.get(os.fstat(saved).st_size)
    with opened(entry["path"], key) as file, leased(file.descriptor) as lease:
        if layout is None or file.status.st_size != layout.size:
            raise Changed("changed its size meanwhile")
        descriptor = file.descriptor
        image, now = (os.pread(each, layout.size, 0) for each in (saved, descriptor))
        if not len(image) == len(now) == layout.size:
            raise Changed("changed its size meanwhile")
        holders = scan_holders()
        owned = judge_rows(now, key, Lives(), holders).live or holders.mapped_by.get(key)
        if owned or lease.use is Use.SOMEBODY:
            raise Changed("is in use by a live process, which may take the rows any moment")
        rows = {int(index): row_in(image, layout, int(index)) for index in entry["slots"]}
        # A row that was not cleared in the end is as it was.
        gone = {index: raw for index, raw in rows.items() if row(descriptor, layout, index) != raw}
        if any(row(descriptor, layout, index)[:4] != bytes(4) for index in gone):
            raise Changed("another process has taken the rows")
        for index, raw in gone.items():
            write_row(descriptor, layout, index, raw)
