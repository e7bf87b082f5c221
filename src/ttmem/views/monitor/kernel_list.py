"""The kernels of a device, each with what is known of its program."""

from __future__ import annotations

from typing import NamedTuple

from ttmem.snapshots import Snapshot
from ttmem.views.device_facts import AMOUNT
from ttmem.views.monitor.entries import Entry, entries, program_key, whole, words
from ttmem.views.monitor.list_columns import ListColumn, figure, label, phrase
from ttmem.views.monitor.state import Units

FIRST = 3  # sorted by FOOTPRINT until the user chooses


class KernelEntry(NamedTuple):
    """A kernel, and its program where that is listed."""

    kernel: Entry
    program: Entry


def kernel_entries(snapshot: Snapshot, device: str) -> list[KernelEntry] | None:
    """The kernels of a device; None if the snapshot came without them."""
    kernels = entries(snapshot, "kernels", device)
    if kernels is None:
        return None
    programs = {program_key(one): one for one in entries(snapshot, "programs", device) or ()}
    return [KernelEntry(kernel, programs.get(program_key(kernel), {})) for kernel in kernels]


def kernel_columns(units: Units) -> list[ListColumn[KernelEntry]]:
    """What is shown of a kernel."""
    return [
        phrase("TYPE", lambda row: words(row.kernel, "type"), width=11),
        figure("BINARY", lambda row: whole(row.kernel, "binary"), units.text, width=AMOUNT),
        figure("CORES", lambda row: whole(row.kernel, "cores")),
        figure("FOOTPRINT", lambda row: whole(row.kernel, "footprint"), units.text),
        phrase("STATUS", lambda row: words(row.program, "status"), width=9, rank=1),
        figure("DISPATCHES", lambda row: whole(row.kernel, "dispatches"), rank=2),
        figure("HITS", lambda row: whole(row.program, "cache_hits"), width=7, rank=4),
        label("PROGRAM", lambda row: whole(row.kernel, "program"), rank=3),
        label("PID", lambda row: whole(row.kernel, "pid"), width=7, rank=6),
        phrase("KERNEL", lambda row: words(row.kernel, "name"), width=24, grow=1, keep_end=True),
    ]
