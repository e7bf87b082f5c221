"""Which ttnn versions live processes have loaded."""

from __future__ import annotations

from ttmem.process_identity import user_id, visible_pids
from ttmem.sources.host.facts import RuntimeUse
from ttmem.sources.shared_memory.environments import loaded_runtime
from ttmem.sources.shared_memory.holders import FairShare


def runtimes_in_use() -> tuple[RuntimeUse, ...]:
    """One for each installed ttnn; processes whose maps are hidden are not known."""
    users: dict[tuple[str, str | None], list[int]] = {}
    share = FairShare()
    for pid in visible_pids():
        loaded = share.ask(user_id(pid), loaded_runtime, pid)
        if loaded is not None:
            users.setdefault(loaded, []).append(pid)
    return tuple(
        RuntimeUse(version, path, tuple(sorted(pids)))
        for (path, version), pids in sorted(users.items(), key=lambda item: item[0][0])
    )
