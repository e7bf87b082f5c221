"""`ttmem ps`: a note for each watched process in which an allocation failed."""

from __future__ import annotations

from functools import lru_cache

from ttmem.analysis.last_failures import LastFailures
from ttmem.snapshots import Snapshot
from ttmem.views.failure_notes import failure_notes
from ttmem.views.note import Note


@lru_cache
def _failures(folder: str) -> LastFailures:
    """The same for every picture of a watch."""
    return LastFailures(folder)


def notes_of_failures(folder: str, picture: Snapshot) -> list[Note]:
    """Of the processes in the picture."""
    pids = {process.pid for process in picture.processes}
    return failure_notes(_failures(folder).of(pids), picture.time_ns)
