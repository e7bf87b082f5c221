"""Which ttnn versions live processes have loaded."""

from __future__ import annotations

from ttmem.process_identity import visible_pids
from ttmem.sources.host.facts import RuntimeUse
from ttmem.sources.shared_memory.environments import loaded_runtime


def runtimes_in_use() -> tuple[RuntimeUse, ...]:
    """One for each installed ttnn; processes whose maps are hidden are not known."""
    users: dict[tuple[str, str | None], list[int]] = {}
    for pid in visible_pids():
        loaded = loaded_runtime(pid)
        if loaded is not None:
            users.setdefault(loaded, []).append(pid)
    return tuple(
        RuntimeUse(version, path, tuple(sorted(pids)))
        for (path, version), pids in sorted(users.items(), key=lambda item: item[0][0])
    )
