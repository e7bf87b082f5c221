"""A program's semaphores: 16 ids per core, 16 bytes each in the config slot."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import NamedTuple

from ttmem.model.circular_buffers import ProgramFault
from ttmem.model.core_ranges import CoreRangeSet, CoreType, intersects

SEMAPHORES_PER_CORE = 16
SEMAPHORE_BYTES = 16


class Semaphore(NamedTuple):
    id: int
    core_type: CoreType
    cores: CoreRangeSet

    def is_on(self, core_type: CoreType) -> bool:
        """The runtime has one kind for Ethernet, which takes space on active and idle cores."""
        return (self.core_type is CoreType.TENSIX) == (core_type is CoreType.TENSIX)


def free_id(semaphores: Sequence[Semaphore], cores: CoreRangeSet, core_type: CoreType) -> int:
    """The lowest id that is free on all these cores."""
    used = {one.id for one in semaphores if one.is_on(core_type) and intersects(one.cores, cores)}
    found = next(number for number in count() if number not in used)
    if found >= SEMAPHORES_PER_CORE:
        raise ProgramFault(
            f"Unable to initialize semaphore on core range {cores[0]}: "
            f"all {SEMAPHORES_PER_CORE} IDs are in use"
        )
    return found
