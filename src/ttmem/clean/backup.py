"""Copies of what `ttmem clean` is about to change, so that it can be undone.

One folder for each run, `XDG_STATE_HOME/ttmem/clean/<time>`, with the files as they were and
`manifest.json`:

| key     | value                                                                                  |
|---------|----------------------------------------------------------------------------------------|
| schema  | `ttmem.clean/1`                                                                        |
| boot    | the kernel's boot id: `folder` and `key` (device, inode) mean nothing after a restart  |
| entries | kind `file`: path, copy, folder, mode, uid, gid; kind `slots`: path, copy, key, slots  |

The manifest is written before each change, so it may name a change that was not made in the end,
and never lacks one that was. Nobody but the user may be able to write there.
"""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ttmem.clean.files import create, opened_private, private_folder
from ttmem.clean.steps import ClearSlots
from ttmem.clock import now_ns
from ttmem.errors import BadInput, TtmemError
from ttmem.sources.owned_files import Changed, OpenFile, folder_key

SCHEMA = "ttmem.clean/1"
MANIFEST = "manifest.json"
_FRESH = f"{MANIFEST}.new"
_KEPT_S = 30 * 86_400
Entry = dict[str, Any]


@dataclass(slots=True)
class Backup:
    """One run's; its folder is made with its first entry."""

    folder: Path
    entries: list[Entry] = field(default_factory=list)
    boot: str | None = None
    _copies: int = 0

    @property
    def id(self) -> str:
        return self.folder.name

    def keep(self, entry: Entry, descriptor: int) -> None:
        """Copies the file, before anything is done to it."""
        entry["copy"] = f"{self._copies}.bin"
        self._copies += 1
        self.entries.append(entry)
        try:
            with (
                private_folder(self.folder.parent, make=True),
                private_folder(self.folder, make=True) as folder,
            ):
                create(folder, entry["copy"], descriptor)
                self._write(folder)
        except (OSError, Changed) as problem:
            self.forget(entry)
            if isinstance(problem, Changed):
                raise
            raise TtmemError(
                f"cannot be backed up in {self.folder} ({problem.strerror}), so it was left as it "
                "is; XDG_STATE_HOME names another place"
            ) from problem

    def forget(self, entry: Entry) -> None:
        """Nothing was done, or it was undone. If that cannot be written down, nobody is hurt."""
        self.entries.remove(entry)
        with suppress(OSError), private_folder(self.folder) as folder:
            if self.entries:
                self._write(folder)
            with suppress(OSError, KeyError):
                os.unlink(os.path.basename(entry["copy"]), dir_fd=folder)
            if not self.entries:
                _empty(folder)
                os.rmdir(self.folder)

    @contextmanager
    def copy_of(self, entry: Entry) -> Iterator[int]:
        """Open for reading."""
        with (
            private_folder(self.folder) as folder,
            opened_private(folder, os.path.basename(entry["copy"])) as descriptor,
        ):
            yield descriptor

    def _write(self, folder: int) -> None:
        """In one step."""
        whole = {"schema": SCHEMA, "boot": self.boot, "entries": self.entries}
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            with open(os.open(_FRESH, flags, 0o600, dir_fd=folder), "w", encoding="utf-8") as file:
                json.dump(whole, file, indent=1)
                file.flush()
                os.fsync(file.fileno())
            os.replace(_FRESH, MANIFEST, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError:
            with suppress(OSError):
                os.unlink(_FRESH, dir_fd=folder)
            raise


class Backups:
    """All runs."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or _state_folder() / "ttmem" / "clean"

    def begin(self) -> Backup:
        """A new one; those of over a month ago are removed."""
        name = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
        try:
            self._remove_old()
            taken = sum(id.startswith(name) for id in self.ids())
        except OSError:
            taken = 0  # the first entry will find out what is wrong
        suffix = f"-{taken + 1}" if taken else ""
        return Backup(self.folder / f"{name}{suffix}", boot=boot_id())

    def _remove_old(self) -> None:
        for old in self.ids():
            with suppress(OSError), private_folder(self.folder / old) as folder:
                written = os.stat(MANIFEST, dir_fd=folder, follow_symlinks=False).st_mtime
                if now_ns() / 1e9 - written > _KEPT_S:
                    _empty(folder)
                    os.rmdir(self.folder / old)

    def ids(self) -> list[str]:
        """Oldest first."""
        try:
            with private_folder(self.folder) as folder:
                return sorted(name for name in os.listdir(folder) if _has_manifest(folder, name))
        except FileNotFoundError:
            return []

    def open(self, id: str | None = None) -> Backup:
        """That one, or the latest."""
        try:
            known = self.ids()
        except OSError as problem:
            raise BadInput(
                f"{self.folder} cannot be used: {problem.strerror}; only the user who cleaned can undo it"
            ) from problem
        if id is None and not known:
            raise BadInput(f"nothing to undo: there is no backup in {self.folder}")
        if id is not None and id not in known:
            raise BadInput(f"there is no backup {id!r}; known are: {', '.join(known) or 'none'}")
        folder = self.folder / (id or known[-1])
        try:
            whole = json.loads(_read_manifest(folder))
            if whole["schema"] != SCHEMA:
                raise ValueError(f"schema {whole['schema']!r}")
            return Backup(folder, [dict(entry) for entry in whole["entries"]], whole["boot"])
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as problem:
            reason = problem.strerror if isinstance(problem, OSError) else problem
            raise BadInput(f"{folder / MANIFEST} cannot be used: {reason}") from problem


def _has_manifest(folder: int, name: str) -> bool:
    try:
        os.stat(f"{name}/{MANIFEST}", dir_fd=folder, follow_symlinks=False)
    except OSError:
        return False
    return True


def _read_manifest(path: Path) -> bytes:
    with (
        private_folder(path) as folder,
        opened_private(folder, MANIFEST) as descriptor,
        open(descriptor, "rb", closefd=False) as file,
    ):
        return file.read()


def _empty(folder: int) -> None:
    for name in os.listdir(folder):
        os.unlink(name, dir_fd=folder)


def slots_entry(step: ClearSlots) -> Entry:
    """Rows of a region that stays."""
    slots = [slot.index for slot in step.slots]
    return {"kind": "slots", "path": step.path, "key": list(step.key), "slots": slots}


def file_entry(file: OpenFile) -> Entry:
    """A file that goes."""
    return {
        "kind": "file",
        "path": file.path,
        "folder": list(folder_key(file.folder)),
        "mode": stat.S_IMODE(file.status.st_mode),
        "uid": file.status.st_uid,
        "gid": file.status.st_gid,
    }


def boot_id() -> str | None:
    """Changes with each start of the machine."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return None


def _state_folder() -> Path:
    given = os.environ.get("XDG_STATE_HOME", "")
    return Path(given) if os.path.isabs(given) else Path.home() / ".local" / "state"
