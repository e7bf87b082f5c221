"""The interface of every feed."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable

from ttmem.clock import now_ns
from ttmem.errors import BadInput
from ttmem.snapshots import DETAILS, Losses, Question, Snapshot
from ttmem.sources.shm import counter_directory
from ttmem.version import __version__


class Feed(ABC):
    """Returns snapshots, repeatedly. Problems raise a TtmemError; the next `read` tries again."""

    telemetry: bool | None = None  # of a recording: whether to add its samples of the sensors

    @property
    @abstractmethod
    def name(self) -> str:
        """What it reads, for display: 'server /tmp/...', 'shared memory /dev/shm'."""

    def read(
        self,
        detail: Iterable[str] = (),
        *,
        device: str | None = None,
        limit: int | None = None,
    ) -> Snapshot:
        """A snapshot of this moment. `detail` names the lists to include; `Question` explains the rest."""
        return self.answer(Question(checked(detail), device, limit))

    @abstractmethod
    def answer(self, question: Question) -> Snapshot:
        """As `read`, with details that are known to exist."""

    def follow(self) -> None:  # noqa: B027
        """Where the past is kept: reads what is new, if possible without the cost of a snapshot."""

    @abstractmethod
    def close(self) -> None:
        """Releases files and connections; a later `read` opens them again."""


def checked(detail: Iterable[str]) -> tuple[str, ...]:
    """The names of details without duplicates; BadInput if one is unknown."""
    wanted = tuple(sorted(set(detail)))
    unknown = [name for name in wanted if name not in DETAILS]
    if unknown:
        raise BadInput(f"there is no detail {unknown[0]!r}; known are {', '.join(DETAILS)}")
    return wanted


def idle_host() -> Snapshot:
    """A snapshot of a host on which nothing uses a device."""
    host = {"name": os.uname().nodename, "ttmem": __version__, "shared_memory": counter_directory()}
    return Snapshot(now_ns(), host, (), (), (), Losses(0, 0, 0))
