"""Copies of what `ttmem clean` is about to change, so that it can be undone.

One folder for each run, `XDG_STATE_HOME/ttmem/clean/<time>`, with the files as they were and
`manifest.json`:

| key     | value                                                                             |
|---------|-----------------------------------------------------------------------------------|
| schema  | `ttmem.clean/1`                                                                   |
| boot    | the kernel's boot id: rows go back only into the file that they came from         |
| entries | kind `file`: path, copy, mode, uid, gid; kind `slots`: path, copy, key, slots     |

The manifest is written before each change and after it.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ttmem.clean.steps import ClearSlots
from ttmem.clean.whole_copy import copy_out
from ttmem.errors import BadInput, TtmemError

SCHEMA = "ttmem.clean/1"
MANIFEST = "manifest.json"
_KEPT_S = 30 * 86_400
Entry = dict[str, Any]


@dataclass(slots=True)
class Backup:
    """One run's; its folder is made with its first entry."""

    folder: Path
    entries: list[Entry] = field(default_factory=list)
    boot: str | None = None

    @property
    def id(self) -> str:
        return self.folder.name

    @contextmanager
    def keeping(self, entry: Entry, descriptor: int) -> Iterator[Entry]:
        """Copies the file; forgets the copy if what is done next fails."""
        copy = self._saved(entry, descriptor)
        try:
            yield entry
        except BaseException:
            self.entries.remove(entry)
            copy.unlink()
            raise
        finally:
            self.write()

    def _saved(self, entry: Entry, descriptor: int) -> Path:
        copy = self.folder / f"{len(self.entries)}.bin"
        entry["copy"] = copy.name
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            copy_out(descriptor, copy)
            self.entries.append(entry)
            self.write()
        except OSError as problem:
            raise TtmemError(
                f"cannot be backed up in {self.folder} ({problem.strerror}), so it was left as it "
                "is; XDG_STATE_HOME names another place"
            ) from problem
        return copy

    def write(self) -> None:
        """In one step; without entries there is no backup."""
        if not self.entries:
            shutil.rmtree(self.folder, ignore_errors=True)
            return
        whole = {"schema": SCHEMA, "boot": self.boot, "entries": self.entries}
        fresh = self.folder / f"{MANIFEST}.new"
        with open(fresh, "w", encoding="utf-8") as file:
            json.dump(whole, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        os.replace(fresh, self.folder / MANIFEST)


class Backups:
    """All runs."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or _state_folder() / "ttmem" / "clean"

    def begin(self) -> Backup:
        """A new one; those of over a month ago are removed."""
        for old in self.ids():
            with suppress(OSError):
                if time.time() - (self.folder / old / MANIFEST).stat().st_mtime > _KEPT_S:
                    shutil.rmtree(self.folder / old)
        name = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
        taken = sum(id.startswith(name) for id in self.ids())
        suffix = f"-{taken + 1}" if taken else ""
        return Backup(self.folder / f"{name}{suffix}", boot=boot_id())

    def ids(self) -> list[str]:
        """Oldest first."""
        return sorted(path.parent.name for path in self.folder.glob(f"*/{MANIFEST}"))

    def open(self, id: str | None = None) -> Backup:
        """That one, or the latest."""
        known = self.ids()
        if id is None and not known:
            raise BadInput(f"nothing to undo: there is no backup in {self.folder}")
        if id is not None and id not in known:
            raise BadInput(f"there is no backup {id!r}; known are: {', '.join(known) or 'none'}")
        folder = self.folder / (id or known[-1])
        try:
            whole = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
            if whole["schema"] != SCHEMA:
                raise ValueError(f"schema {whole['schema']!r}")
            return Backup(folder, [dict(entry) for entry in whole["entries"]], whole["boot"])
        except (OSError, ValueError, KeyError, TypeError) as problem:
            raise BadInput(f"{folder / MANIFEST} cannot be used: {problem}") from problem


def slots_entry(step: ClearSlots) -> Entry:
    """Rows of a region that stays; those that were cleared in the end are filled in afterwards."""
    slots = [slot.index for slot in step.slots]
    return {"kind": "slots", "path": step.path, "key": list(step.key), "slots": slots}


def file_entry(path: str, descriptor: int) -> Entry:
    """A file that goes."""
    status = os.fstat(descriptor)
    mode = stat.S_IMODE(status.st_mode)
    return {"kind": "file", "path": path, "mode": mode, "uid": status.st_uid, "gid": status.st_gid}


def boot_id() -> str | None:
    """Changes with each start of the machine."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return None


def _state_folder() -> Path:
    given = os.environ.get("XDG_STATE_HOME", "")
    return Path(given) if os.path.isabs(given) else Path.home() / ".local" / "state"
