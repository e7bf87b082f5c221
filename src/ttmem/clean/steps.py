"""What there is to do, and what is left alone: plain data."""

from __future__ import annotations

from dataclasses import dataclass

from ttmem.sources.owned_files import Key as Key


@dataclass(frozen=True, slots=True)
class DeadSlot:
    """One process's row in a region; `raw` is what it held when it was judged."""

    index: int
    pid: int
    name: str
    held: int
    raw: bytes


@dataclass(frozen=True, slots=True)
class ClearSlots:
    """The region is in use: only rows of dead processes are cleared. `size` tells its layout."""

    path: str
    key: Key
    slots: tuple[DeadSlot, ...]
    size: int


@dataclass(frozen=True, slots=True)
class RemoveRegion:
    """Nobody uses the region; `data` is all of it."""

    path: str
    key: Key
    data: bytes
    slots: tuple[DeadSlot, ...]


@dataclass(frozen=True, slots=True)
class RemoveSocket:
    """Nobody listens there."""

    path: str


@dataclass(frozen=True, slots=True)
class RemoveProbe:
    """Region of the probe whose process is dead."""

    path: str
    key: Key
    pid: int
    size: int


Step = ClearSlots | RemoveRegion | RemoveSocket | RemoveProbe


@dataclass(frozen=True, slots=True)
class LeftAlone:
    """Something that ttmem may not or will not touch; `command` is what a user can do."""

    path: str
    reason: str
    command: str | None = None
    by_force: bool = (
        False  # the command may hurt somebody who lives; it is for those who know better
    )


@dataclass(frozen=True, slots=True)
class Plan:
    """What would be done, and what not."""

    steps: tuple[Step, ...]
    left: tuple[LeftAlone, ...]

    def does(self, path: str) -> bool:
        """Is there anything to do with this file?"""
        return any(step.path == path for step in self.steps)

    def refuses(self, path: str) -> LeftAlone | None:
        """Why it is left alone, if it is."""
        return next((left for left in self.left if left.path == path), None)


@dataclass(frozen=True, slots=True)
class Outcome:
    """`did`: the step, the part of it that was done, or None; `problem` is None if all was."""

    step: Step
    did: Step | None
    problem: str | None = None
