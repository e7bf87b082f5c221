"""What the environment of a process, and the runtime that it has loaded, say about its devices."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from itertools import islice

from ttmem.procfs import maps, user_id

_LARGEST = 4 << 20
_MAX_KNOWN = 4096
_MOST_NAMES = 20_000  # of packages beside ttnn; a process can name any folder by what it maps
_LIBRARY = re.compile(rb"(/\S.*/(?:_ttnn[^/\n]*\.so[^/\n]*|libtt_metal\.so[^/\n]*))$", re.MULTILINE)
_DIST_INFO = re.compile(r"ttnn-([0-9][\w.+-]{0,40})\.dist-info", re.ASCII)


@dataclass(frozen=True, slots=True)
class Environment:
    """`descriptor` is a path that is good from here, even if the process is in a container."""

    descriptor: str | None
    slow_dispatch: bool
    ttnn: str | None  # the version that it has loaded
    uid: int | None = None  # whose process it is


class Environments:
    """Read once for each process: the kernel shows what it was started with."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int | None], Environment | None] = {}

    def of(self, pid: int, started_ns: int | None) -> Environment | None:
        """None if it is hidden from this user."""
        key = (pid, started_ns)
        if key not in self._known:
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            self._known[key] = _read(pid)
        return self._known[key]


def _read(pid: int) -> Environment | None:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            words = file.read(_LARGEST).split(b"\0")
    except OSError:
        return None
    values = dict(word.partition(b"=")[::2] for word in words)
    path = os.fsdecode(values.get(b"TT_METAL_MOCK_CLUSTER_DESC_PATH", b""))
    loaded = loaded_runtime(pid)
    return Environment(
        descriptor=_from_here(pid, path) if path else None,
        slow_dispatch=b"TT_METAL_SLOW_DISPATCH_MODE" in values,
        ttnn=loaded and loaded[1],
        uid=user_id(pid),
    )


def _from_here(pid: int, path: str) -> str:
    return f"/proc/{pid}/root{path}" if os.path.isabs(path) else f"/proc/{pid}/cwd/{path}"


def loaded_runtime(pid: int) -> tuple[str, str | None] | None:
    """(folder, version) of the ttnn in the maps of a process; None without one, or if they are hidden."""
    library = _library(maps(pid) or b"")
    return None if library is None else _installation(pid, library)


def _library(maps: bytes) -> str | None:
    """The Python module rather than the library below it: it lies next to its version."""
    if b"_ttnn" not in maps and b"libtt_metal" not in maps:
        return None
    found = [os.fsdecode(match[1]) for match in _LIBRARY.finditer(maps)]
    found.sort(key=lambda path: not os.path.basename(path).startswith("_ttnn"))
    return found[0] if found else None


def _installation(pid: int, library: str) -> tuple[str, str | None]:
    """(folder, version); the folder is looked at as the process sees it, container or not."""
    folder = os.path.dirname(library)
    for _ in range(4):  # site-packages/ttnn/build/lib/_ttnn.so is the deepest that was seen
        version = _version(f"/proc/{pid}/root{folder}")
        if version is not None:
            return folder, version
        folder = os.path.dirname(folder)
    return os.path.dirname(library), None


def _version(folder: str) -> str | None:
    try:
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry in islice(entries, _MOST_NAMES))
    except OSError:
        return None
    matches = (_DIST_INFO.fullmatch(name) for name in names)
    return next((match[1] for match in matches if match), None)
