"""One consistent copy of a file that others write to without any lock.

Words are written one by one: a slot's pid stands before its counters are zeroed. So each part is
read until two reads of it agree. The file is read, never mapped: a mapping of a file that
somebody shrinks kills its reader with SIGBUS, and the runtime does shrink files.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache

from ttmem.sources.shared_memory.layout import PROCESSES, Layout

READS = 8


@cache
def _parts(layout: Layout) -> tuple[slice, ...]:
    """Head and chips belong together; then each slot; then the rest."""
    slots = [layout.place(index) for index in range(PROCESSES)]
    return (
        slice(0, layout.processes_at),
        *(slice(at, at + layout.process.size) for at in slots),
        slice(layout.processes_end, layout.size),
    )


@dataclass(frozen=True, slots=True)
class Copy:
    """The bytes, and whether all of them held still together: only then can sums be compared."""

    data: bytes
    still: bool


def steady_read(descriptor: int, layout: Layout) -> Copy:
    """At most a few reads; a part that never holds still is taken as it was last seen."""
    size, parts = layout.size, _parts(layout)
    before = os.pread(descriptor, size, 0)
    after = os.pread(descriptor, size, 0)
    if before == after:
        return Copy(after, True)
    agreed: dict[int, bytes] = {}
    for _ in range(READS - 2):
        if len(after) != size:
            break  # shrunk under us: what is left is no region
        for number, part in enumerate(parts):
            if number not in agreed and before[part] == after[part]:
                agreed[number] = after[part]
        if len(agreed) == len(parts):
            break
        before, after = after, os.pread(descriptor, size, 0)
        if before == after:
            return Copy(after, True)
    if len(after) != size:
        return Copy(after, False)
    joined = b"".join(agreed.get(number, after[part]) for number, part in enumerate(parts))
    return Copy(joined, False)
