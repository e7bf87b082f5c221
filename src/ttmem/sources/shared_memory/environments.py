"""What the environment of a process says about the devices that it opens."""

from __future__ import annotations

import os
from dataclasses import dataclass

_LARGEST = 4 << 20
_MAX_KNOWN = 4096


@dataclass(frozen=True, slots=True)
class Environment:
    """`descriptor` is a path that is good from here, even if the process is in a container."""

    descriptor: str | None
    slow_dispatch: bool


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
    return Environment(
        descriptor=_from_here(pid, path) if path else None,
        slow_dispatch=b"TT_METAL_SLOW_DISPATCH_MODE" in values,
    )


def _from_here(pid: int, path: str) -> str:
    return f"/proc/{pid}/root{path}" if os.path.isabs(path) else f"/proc/{pid}/cwd/{path}"
