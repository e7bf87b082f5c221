"""The programs of a device, each with its owner and its circular buffers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from ttmem.snapshots import Snapshot
from ttmem.views.ages import age
from ttmem.views.device_facts import AMOUNT
from ttmem.views.monitor.entries import (
    Entry,
    ProgramKey,
    entries,
    owners,
    program_key,
    whole,
    words,
)
from ttmem.views.monitor.list_columns import ListColumn, figure, label, phrase
from ttmem.views.monitor.state import Units

FIRST = 3  # sorted by DISPATCHES until the user chooses


class ProgramEntry(NamedTuple):
    """A program on one device; None: unknown."""

    program: Entry
    owner: str | None
    cb_count: int | None
    cb_bytes: int | None
    idle: int | None  # nanoseconds since its last dispatch


def program_entries(snapshot: Snapshot, device: str) -> list[ProgramEntry] | None:
    """The programs of a device; None if the snapshot came without them."""
    programs = entries(snapshot, "programs", device)
    if programs is None:
        return None
    buffers = entries(snapshot, "circular_buffers", device)
    by_program = _by_program(buffers or [])
    commands = owners(snapshot)
    made = []
    for program in programs:
        count, size = (None, None) if buffers is None else by_program[program_key(program)]
        last = whole(program, "last_dispatch_ns")
        idle = None if last is None else max(snapshot.time_ns - last, 0)
        made.append(ProgramEntry(program, commands.get(whole(program, "pid")), count, size, idle))
    return made


def _by_program(buffers: list[Entry]) -> dict[ProgramKey, tuple[int, int]]:
    """Count and bytes of circular buffers, as in the device's demand."""
    found: dict[ProgramKey, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for entry in buffers:
        if entry.get("global"):  # it lies on an L1 buffer that is counted itself
            continue
        size, times = whole(entry, "size") or 0, whole(entry, "references") or 1
        count, total = found[program_key(entry)]
        found[program_key(entry)] = (count + times, total + size * times)
    return found


def are_named(rows: Sequence[ProgramEntry]) -> bool:
    """Did anybody tell which operation made one of them?"""
    return any(words(row.program, "name") or words(row.program, "site") for row in rows)


def program_columns(units: Units, named: bool = False) -> list[ListColumn[ProgramEntry]]:
    """What is shown of a program; operation and call site if any of them is known."""
    origin: list[ListColumn[ProgramEntry]] = [
        phrase("OPERATION", lambda row: words(row.program, "name"), width=16, grow=1, rank=1),
        phrase(
            "CALL SITE",
            lambda row: words(row.program, "site"),
            width=16,
            grow=2,
            rank=2,
            keep_end=True,
        ),
        phrase(
            "LAST CALLER",
            lambda row: words(row.program, "last_site"),
            width=16,
            grow=2,
            rank=7,
            keep_end=True,
        ),
    ]
    return [
        label("PROGRAM", lambda row: whole(row.program, "program")),
        label("PID", lambda row: whole(row.program, "pid"), width=7),
        phrase("STATUS", lambda row: words(row.program, "status"), width=9),
        figure("DISPATCHES", lambda row: whole(row.program, "dispatches")),
        figure("HITS", lambda row: whole(row.program, "cache_hits"), width=7, rank=1),
        figure("MISSES", lambda row: whole(row.program, "cache_misses"), rank=3),
        figure("CBS", lambda row: row.cb_count, rank=4),
        figure("CB BYTES", lambda row: row.cb_bytes, units.text, width=AMOUNT, rank=1),
        label("LAST", lambda row: row.idle, age, width=6),
        figure("RESIDENT", lambda row: whole(row.program, "resident"), units.text, rank=2),
        figure("CORES", lambda row: whole(row.program, "resident_cores"), rank=5),
        *(origin if named else []),
        phrase("OWNER", lambda row: row.owner, width=12, grow=1, rank=6),
    ]
