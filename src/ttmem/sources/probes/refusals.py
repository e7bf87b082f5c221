"""Processes of one `ttmem run` without room for a region: each leaves an empty file, ttmem_no_room_LAUNCHER_PID."""

from __future__ import annotations

import os
import re
from contextlib import suppress

_NAME = re.compile(r"ttmem_no_room_([0-9]{1,10})_([0-9]{1,10})\Z")


def take_refusals(folder: str, launcher: int) -> list[int]:
    """The pids; the files are gone afterwards, and so are those of launchers that were killed."""
    pids = []
    for name in _listed(folder):
        match = _NAME.match(name)
        if match is None:
            continue
        path = os.path.join(folder, name)
        with suppress(OSError):
            if os.lstat(path).st_uid != os.geteuid():
                continue  # nobody else's process was started by this user's launcher
            if int(match[1]) == launcher:
                pids.append(int(match[2]))
            elif os.path.exists(f"/proc/{match[1]}"):
                continue
            os.unlink(path)
    return sorted(pids)


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []
