"""Which ttnn versions live processes have loaded, by the libraries in their maps."""

from __future__ import annotations

import os
import re

from ttmem.sources.host.facts import RuntimeUse
from ttmem.sources.shared_memory.holders import process_file, visible_pids

_LIBRARY = re.compile(rb"(/\S.*/(?:_ttnn[^/\n]*\.so[^/\n]*|libtt_metal\.so[^/\n]*))$", re.MULTILINE)
_DIST_INFO = re.compile(r"ttnn-([0-9][^/]*)\.dist-info")


def runtimes_in_use() -> tuple[RuntimeUse, ...]:
    """One for each installed ttnn; processes whose maps are hidden are not known."""
    users: dict[tuple[str, str | None], list[int]] = {}
    for pid in visible_pids():
        library = _library(process_file(pid, "maps"))
        if library is not None:
            root, version = _installation(pid, library)
            users.setdefault((root, version), []).append(pid)
    return tuple(
        RuntimeUse(version, path, tuple(sorted(pids)))
        for (path, version), pids in sorted(users.items(), key=lambda item: item[0][0])
    )


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
        names = os.listdir(folder)
    except OSError:
        return None
    matches = (_DIST_INFO.fullmatch(name) for name in sorted(names))
    return next((match[1] for match in matches if match), None)
