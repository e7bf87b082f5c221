"""The rows of a region: whose they are, clearing them, writing them back.

A row is cleared like the runtime does it: figures and name first, the pid last, so that a process looking for a free
row never finds a half-cleared one. Each write is one `pwrite` into the live file, which is never truncated, copied or
replaced.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

from ttmem.events import Owner
from ttmem.sources.counters.layout import LAYOUTS, PROCESSES, Layout
from ttmem.sources.counters.proc_scan import ProcScan
from ttmem.sources.counters.process_states import ProcessStates
from ttmem.sources.counters.slots import SlotReader
from ttmem.sources.owned_files import Key, write_whole
from ttmem.text import printable

_PID = 4  # bytes, at the beginning of a row


@dataclass(frozen=True, slots=True)
class DeadSlot:
    """The row of one process in a region; `raw` is its contents when it was examined."""

    index: int
    pid: int
    name: str
    held: int
    raw: bytes


def judge_rows(
    data: bytes, key: Key, states: ProcessStates, scan: ProcScan
) -> tuple[tuple[DeadSlot, ...], bool]:
    """(rows of dead processes in one region, whether any is of a live one). Those being released are skipped."""
    dead: list[DeadSlot] = []
    live = False
    layout = LAYOUTS[len(data)]
    for slot in _used(data, layout):
        owner = owner_of(layout, slot.raw, key, states, scan)
        if owner is None:
            continue
        if owner.counts:
            live = True
        else:
            dead.append(slot)
    return tuple(dead), live


def owner_of(
    layout: Layout, raw: bytes, key: Key, states: ProcessStates, scan: ProcScan
) -> Owner | None:
    """None if the row belongs to no process. Figures are ignored, since those of a dead process may be impossible."""
    pid, *_, updated, name = layout.slot(raw)
    slot = (pid, 0, 0, 0, 0, 0, updated, name)
    samples = SlotReader().read([slot], key, states, scan).processes
    return samples[0].owner if samples else None


def _used(data: bytes, layout: Layout) -> Iterator[DeadSlot]:
    for index in range(PROCESSES):
        raw = row_in(data, layout, index)
        pid, dram, l1, l1_small, trace, cb, _, name = layout.slot(raw)
        if pid:
            text = printable(name.partition(b"\0")[0])
            yield DeadSlot(index, pid, text, dram + l1 + l1_small + trace + cb, raw)


def row_in(data: bytes, layout: Layout, index: int) -> bytes:
    at = layout.place(index)
    return data[at : at + layout.process.size]


def row(descriptor: int, layout: Layout, index: int) -> bytes:
    """Its current contents in the file."""
    return os.pread(descriptor, layout.process.size, layout.place(index))


def write_row(descriptor: int, layout: Layout, index: int, raw: bytes) -> None:
    """Writes the pid last, separately."""
    at = layout.place(index)
    write_whole(descriptor, raw[_PID:], at + _PID)
    write_whole(descriptor, raw[:_PID], at)
