"""One consistent copy of a file that others write to without any lock.

Words are written one by one: a slot's pid stands before its counters are zeroed. So each part is
read until two reads of it agree. The file is read, never mapped: a mapping of a file that
somebody shrinks kills its reader with SIGBUS, and the runtime does shrink files.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from ttmem.sources.shared_memory.layout import PROCESS, PROCESSES, PROCESSES_AT, SIZE, STATE_AT

READS = 8

# Head and chips belong together; then each slot; then the rest.
_PARTS = (
    slice(0, PROCESSES_AT),
    *(
        slice(PROCESSES_AT + j * PROCESS.size, PROCESSES_AT + (j + 1) * PROCESS.size)
        for j in range(PROCESSES)
    ),
    slice(STATE_AT, SIZE),
)


@dataclass(frozen=True, slots=True)
class Copy:
    """The bytes, and whether all of them held still together: only then can sums be compared."""

    data: bytes
    still: bool


def steady_read(descriptor: int) -> Copy:
    """At most a few reads; a part that never holds still is taken as it was last seen."""
    before = os.pread(descriptor, SIZE, 0)
    after = os.pread(descriptor, SIZE, 0)
    if before == after:
        return Copy(after, True)
    agreed: dict[int, bytes] = {}
    for _ in range(READS - 2):
        if len(after) != SIZE:
            break  # shrunk under us: what is left is no region
        for number, part in enumerate(_PARTS):
            if number not in agreed and before[part] == after[part]:
                agreed[number] = after[part]
        if len(agreed) == len(_PARTS):
            break
        before, after = after, os.pread(descriptor, SIZE, 0)
        if before == after:
            return Copy(after, True)
    if len(after) != SIZE:
        return Copy(after, False)
    joined = b"".join(agreed.get(number, after[part]) for number, part in enumerate(_PARTS))
    return Copy(joined, False)
