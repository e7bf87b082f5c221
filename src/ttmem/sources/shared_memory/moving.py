"""Processes that are out of sight, but not dead."""

from __future__ import annotations


class Moving:
    """Slots of processes that are not here, and are written to: they live where we cannot see.

    So it is where ttmem runs in a container and another one shares its /dev/shm. Where every process is in sight,
    whoever goes on writing to such a slot only pretends to be somebody.
    """

    def __init__(self, all_in_sight: bool) -> None:
        self._all_in_sight = all_in_sight
        self._updates: dict[int, int] = {}
        self._updates_now: dict[int, int] = {}
        self._moved: set[int] = set()

    def has_moved(self, pid: int, updated_ns: int) -> bool:
        if self._all_in_sight:
            return False
        self._updates_now[pid] = updated_ns
        if updated_ns > self._updates.get(pid, updated_ns):
            self._moved.add(pid)
        return pid in self._moved

    def end_of_reading(self) -> None:
        self._updates, self._updates_now = self._updates_now, {}
        self._moved &= self._updates.keys()
