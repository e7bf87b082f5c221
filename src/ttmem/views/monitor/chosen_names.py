"""What the processes of `--pid` are called in a sentence."""

from __future__ import annotations

from collections.abc import Collection

NAMED = 3


def chosen_names(pids: Collection[int]) -> str:
    """'pid 41235', 'pids 1, 2', or how many there are."""
    if len(pids) > NAMED:
        return f"{len(pids):,} chosen processes"
    return f"{'pid' if len(pids) == 1 else 'pids'} {', '.join(map(str, pids))}"
