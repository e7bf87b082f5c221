"""Whose file it is: those of others may be open to us, but are not ours to clean."""

from __future__ import annotations

import os

from ttmem.clean.steps import LeftAlone
from ttmem.process_identity import user_name


def foreign(path: str, command: str) -> LeftAlone | None:
    """None if this user may clean the file; else why not, and that `sudo` before `command` helps."""
    try:
        uid = os.lstat(path).st_uid
    except OSError:
        return None  # gone: the step will find out
    if os.geteuid() in (0, uid):
        return None
    reason = f"{os.path.basename(path)}: belongs to user {user_name(uid)}"
    return LeftAlone(path, reason, f"sudo {command}")
