"""The directory that processes share their figures in: /dev/shm, unless told otherwise.

Stock ttnn publishes its counters there as `tt_device_UNIQUEID_memory`. The probe creates a region per process,
`ttmem_PID_STARTTICKS`; `_before` is appended to the region of the program that ran before an `exec`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from ttmem.errors import BadInput
from ttmem.events import CLOSED, COUNTERS_CLOSED, PROBE_CLOSED, Remark
from ttmem.procfs import owner_of

DEFAULT_DIRECTORY = "/dev/shm"
SHM_VARIABLE = "TTMEM_SHM"  # counters and regions
REGION_VARIABLE = "TTMEM_REGION_DIR"  # regions only
_REGION_NAME = r"ttmem_([0-9]{1,10})_([0-9]{1,20})(?:_before)?"

HELP = "run ttmem as that user, or as root"
_PATTERNS = {COUNTERS_CLOSED: "tt_device_*_memory", PROBE_CLOSED: "ttmem_*"}


def counter_directory(given: str | None = None) -> str:
    return given or os.environ.get(SHM_VARIABLE) or DEFAULT_DIRECTORY


def probe_directory(given: str | None = None) -> str:
    return given or os.environ.get(REGION_VARIABLE) or counter_directory()


def check_directories(given: str | None = None) -> None:
    """BadInput unless what --shm, or else the environment, names is a directory."""
    if given is not None:
        named = {"--shm ": given}
    else:
        names = (SHM_VARIABLE, REGION_VARIABLE)
        named = {f"{name}=": folder for name in names if (folder := os.environ.get(name))}
    for how, folder in named.items():
        if not os.path.isdir(folder):
            shown = folder or "''"
            raise BadInput(
                f"{how}{shown} is not a directory; regions are usually in {DEFAULT_DIRECTORY}"
            )


def clean_command(folder: str) -> str:
    """The command that removes what dead processes left in a directory."""
    import shlex  # here, since `ttmem ps` hardly ever needs it

    where = "" if folder == DEFAULT_DIRECTORY else f" --shm {shlex.quote(folder)}"
    return f"ttmem clean{where} --yes"


def region_name(name: str) -> tuple[int, int] | None:
    """(pid, start ticks) in the name of a probe region; None if a file has another name."""
    match = re.fullmatch(_REGION_NAME, name) if name.startswith("ttmem_") else None
    return (int(match[1]), int(match[2])) if match else None


def is_region_name(name: str) -> bool:
    return region_name(name) is not None


def is_counter_name(name: str) -> bool:
    """Whether it looks like the name of a counter file."""
    return name.startswith("tt_device_") and name.endswith("_memory")


def has_regions(folder: str) -> bool:
    """Whether any file is named like a probe region. Without one, the code that reads them need not be loaded."""
    try:
        return any(map(is_region_name, os.listdir(folder)))
    except OSError:
        return False


def closed_file(kind: str, path: str, pid: int | None = None) -> Remark:
    """The remark on a file that this user may not read; `kind` is one of `CLOSED`."""
    name = os.path.basename(path)
    text = f"{name}: belongs to user {owner_of(path) or 'unknown'}, who alone may read it; {HELP}"
    return Remark(kind, text, pid, path=path)


def fault(kind: str, path: str, problem: Exception, pid: int | None = None) -> Remark:
    """An error caused by the contents of one file must not affect others."""
    what = f"{type(problem).__name__}: {problem}"[:200]
    return Remark(kind, f"{path} cannot be read: {what}", pid, path=path)


def by_user(remarks: Iterable[Remark]) -> list[Remark]:
    """Merges the remarks on unreadable files per user and kind; returns the others unchanged."""
    others, closed = [], dict[tuple[str, str | None], list[Remark]]()
    for remark in remarks:
        if remark.kind in CLOSED and remark.path is not None:
            closed.setdefault((remark.kind, owner_of(remark.path)), []).append(remark)
        else:
            others.append(remark)
    merged = (
        files[0] if len(files) == 1 else Remark(kind, f"{sentence(len(files), kind, user)}; {HELP}")
        for (kind, user), files in closed.items()
    )
    return [*merged, *others]


def sentence(count: int, kind: str, user: str | None) -> str:
    """'62 regions of user root cannot be read (tt_device_*_memory)'."""
    regions = "1 region" if count == 1 else f"{count:,} regions"
    return f"{regions} of user {user or 'unknown'} cannot be read ({_PATTERNS[kind]})"
