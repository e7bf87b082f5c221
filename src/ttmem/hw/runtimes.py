"""What the environment of a process, and the ttnn it has loaded, say about its devices."""

from __future__ import annotations

import os
import re
from itertools import islice

from ttmem.fast_dataclasses import dataclass
from ttmem.procfs import environ, maps, user_id

_MAX_KNOWN = 4096
_MOST_NAMES = 20_000  # of packages beside ttnn; a process can map a file of any directory
_LIBRARY = rb"(?m)(/\S.*/(?:_ttnn[^/\n]*\.so[^/\n]*|libtt_metal\.so[^/\n]*))$"
_DIST_INFO = r"(?a)ttnn-([0-9][\w.+-]{0,40})\.dist-info"


@dataclass(frozen=True, slots=True)
class Environment:
    """`descriptor` is a path that can be opened from here, even if the process is in a container."""

    descriptor: str | None
    slow_dispatch: bool
    ttnn: str | None  # the version that it has loaded
    uid: int | None = None


class Environments:
    """Read once per process, since the kernel shows the environment it was started with."""

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
    values = environ(pid)
    if values is None:
        return None
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
    """(directory, version) of the ttnn that a process has mapped; None if there is none, or if its maps are hidden."""
    mapped = maps(pid) or b""
    if b"_ttnn" not in mapped and b"libtt_metal" not in mapped:
        return None
    found = [os.fsdecode(match[1]) for match in re.finditer(_LIBRARY, mapped)]
    # The Python module rather than the library below it: it is next to the version.
    found.sort(key=lambda path: not os.path.basename(path).startswith("_ttnn"))
    return _installation(pid, found[0]) if found else None


def _installation(pid: int, library: str) -> tuple[str, str | None]:
    """Looks at the directories as the process sees them, in a container or not."""
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
    matches = (re.fullmatch(_DIST_INFO, name) for name in names)
    return next((match[1] for match in matches if match), None)
