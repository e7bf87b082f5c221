"""Brings back what a run of `ttmem clean` took, where that hurts nobody."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ttmem.clean.backup import Backup, Entry, boot_id
from ttmem.clean.lease import Use, leased
from ttmem.clean.open_file import Changed, opened
from ttmem.clean.slots import judge_rows, row, row_in, write_row
from ttmem.clean.whole_copy import copy
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
        except (Changed, KeyError, TypeError, ValueError) as problem:
            outcomes.append(Restored(path, str(problem)))
        except OSError as problem:
            outcomes.append(Restored(path, f"failed: {problem.strerror}"))
        else:
            outcomes.append(Restored(path))
            backup.entries.remove(entry)
    backup.write()
    return tuple(outcomes)


def _restore(entry: Entry, backup: Backup) -> None:
    saved = backup.folder / os.path.basename(entry["copy"])
    if entry["kind"] == "file":
        _restore_file(entry, saved)
    elif entry["kind"] == "slots":
        if backup.boot != boot_id():
            raise Changed("the machine was started anew since, so its region is another one")
        _restore_slots(entry, saved)
    else:
        raise Changed(f"of unknown kind {entry['kind']!r}")


def _restore_file(entry: Entry, saved: Path) -> None:
    """It appears whole or not at all, and never over another."""
    path = entry["path"]
    aside = f"{os.path.dirname(path)}/.ttmem-undo-{os.getpid()}-{os.path.basename(path)}"
    target = os.open(aside, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(saved, "rb") as source:
            copy(source.fileno(), target)
        if os.geteuid() == 0:
            os.fchown(target, entry["uid"], entry["gid"])
        os.fchmod(target, entry["mode"])
        os.link(aside, path, follow_symlinks=False)
    except FileExistsError:
        raise Changed("there is a new file of that name, which is left as it is") from None
    finally:
        os.close(target)
        with suppress(OSError):
            os.unlink(aside)


def _restore_slots(entry: Entry, saved: Path) -> None:
    device, inode = entry["key"]
    key = (int(device), int(inode))
    image = saved.read_bytes()
    with opened(entry["path"], key) as descriptor, leased(descriptor) as lease:
        layout = LAYOUTS.get(len(image))
        if layout is None or os.fstat(descriptor).st_size != layout.size:
            raise Changed("changed its size meanwhile")
        now = os.pread(descriptor, layout.size, 0)
        holders = scan_holders()
        owned = judge_rows(now, key, Lives(), holders).live or holders.mapped_by.get(key)
        if owned or lease.use is Use.SOMEBODY:
            raise Changed("is in use by a live process, which may take the rows any moment")
        indexes = [int(index) for index in entry["slots"]]
        if any(row(descriptor, layout, index)[:4] != bytes(4) for index in indexes):
            raise Changed("another process has taken the rows")
        for index in indexes:
            write_row(descriptor, layout, index, row_in(image, layout, index))
