"""What differs between the dump of now, and that of processes that have ended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import tzinfo

from ttmem.views.dump_groups import Group
from ttmem.views.moments import time_of_day
from ttmem.views.names import short_command


@dataclass(frozen=True, slots=True)
class DumpColumns:
    """How columns are called, and what tells one process from another."""

    figures: tuple[str, ...]
    owner: str
    owner_of: Callable[[Group], str | None]
    age: str
    until_ns: Callable[[Group], int | None]  # entries of a group are that old at that time


def columns_of_now(time_ns: int) -> DumpColumns:
    """Of what is allocated."""
    return DumpColumns(
        figures=("REQUESTED", "HELD", "SHARE"),
        owner="COMMAND",
        owner_of=lambda group: group.command and short_command(group.command),
        age="AGE",
        until_ns=lambda _: time_ns,
    )


def columns_of_ended(zone: tzinfo | None) -> DumpColumns:
    """Of what was never freed: a region keeps no command, so its end is what a run is known by."""
    return DumpColumns(
        figures=("REQUESTED", "HELD"),
        owner="ENDED",
        owner_of=lambda group: (
            None if group.ended_ns is None else time_of_day(group.ended_ns, zone)
        ),
        age="LIVED",
        until_ns=lambda group: group.ended_ns,
    )
