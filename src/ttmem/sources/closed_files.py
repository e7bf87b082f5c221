"""Regions that belong to somebody else and are closed to us: one remark for all of one user."""

from __future__ import annotations

import os
from collections.abc import Iterable

from ttmem.events import Remark
from ttmem.process_identity import user_name

COUNTERS_CLOSED = "other_user"  # regions of stock ttnn
PROBE_CLOSED = "other_user_probe"  # regions of the probe
CLOSED = (COUNTERS_CLOSED, PROBE_CLOSED)
NAMES = {COUNTERS_CLOSED: "tt_device_*_memory", PROBE_CLOSED: "ttmem_*"}
HELP = "run ttmem as that user, or as root"


def closed_file(kind: str, path: str, pid: int | None = None) -> Remark:
    """Of one file that may not be read."""
    name = os.path.basename(path)
    text = f"{name}: belongs to user {owner(path)}, who alone may read it; {HELP}"
    return Remark(kind, text, pid, path=path)


def by_user(remarks: Iterable[Remark]) -> list[Remark]:
    """Closed files of one user and one kind in one sentence; the other remarks as they are."""
    others, closed = [], dict[tuple[str, str], list[Remark]]()
    for remark in remarks:
        if remark.kind in CLOSED and remark.path is not None:
            closed.setdefault((remark.kind, owner(remark.path)), []).append(remark)
        else:
            others.append(remark)
    return [*(_told(*key, files) for key, files in closed.items()), *others]


def owner(path: str) -> str:
    """The user's name."""
    try:
        return user_name(os.lstat(path).st_uid) or "unknown"
    except OSError:
        return "unknown"


def sentence(count: int, kind: str, user: str | None) -> str:
    """'62 regions of user root cannot be read (tt_device_*_memory)'."""
    regions = "1 region" if count == 1 else f"{count:,} regions"
    return f"{regions} of user {user or 'unknown'} cannot be read ({NAMES[kind]})"


def _told(kind: str, user: str, files: list[Remark]) -> Remark:
    if len(files) == 1:
        return files[0]
    return Remark(kind, f"{sentence(len(files), kind, user)}; {HELP}")
