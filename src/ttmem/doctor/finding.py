"""One thing that a user should know."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum


class Level(IntEnum):
    """How bad it is: no figure is wrong, some figure is missing or misleading, something fails."""

    INFO = 0
    WARNING = 1
    ERROR = 2

    @property
    def word(self) -> str:
        return self.name.lower()


CLEAN = "ttmem clean --yes"


@dataclass(frozen=True, slots=True)
class Finding:
    """`kind` is a word for programs; `command` mends it; where no command can, `advice` does."""

    kind: str
    level: Level
    text: str
    command: str | None = None
    advice: str | None = None
    pid: int | None = None
    bytes: int | None = None
    path: str | None = None


def worst(findings: Iterable[Finding]) -> Level | None:
    """None if there is nothing."""
    return max((finding.level for finding in findings), default=None)
