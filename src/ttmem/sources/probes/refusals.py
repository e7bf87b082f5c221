"""Processes of one `ttmem run` without room for a region: each leaves an empty file, ttmem_no_room_LAUNCHER_PID."""

from __future__ import annotations

import os
import re
from contextlib import suppress

from ttmem.sources.owned_files import Changed, opened

_NAME = re.compile(r"ttmem_no_room_([0-9]{1,10})_([0-9]{1,10})\Z")


def take_refusals(folder: str, launcher: int) -> list[int]:
    """The pids; the files are gone afterwards, and so are those of launchers that were killed."""
    pids = []
    for name in _listed(folder):
        match = _NAME.match(name)
        if match is None:
            continue
        ours = int(match[1]) == launcher
        if not ours and os.path.exists(f"/proc/{match[1]}"):
            continue
        # Nobody else's process was started by this user's launcher.
        with suppress(Changed, OSError), opened(os.path.join(folder, name)) as file:
            if file.status.st_uid == os.geteuid() and file.status.st_size == 0:
                os.unlink(name, dir_fd=file.folder)
                pids += [int(match[2])] * ours
    return sorted(pids)


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []
