"""What every feed can do."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Protocol

from ttmem.clock import now_ns
from ttmem.errors import BadInput
from ttmem.snapshots import DETAILS, Losses, Snapshot
from ttmem.sources.shm import counter_directory
from ttmem.version import __version__


class Feed(Protocol):
    """Gives snapshots, again and again. Problems raise a TtmemError; the next `read` tries again."""

    @property
    def name(self) -> str:
        """What it reads, for display: 'server /tmp/...', 'shared memory /dev/shm'."""

    def read(
        self,
        detail: Iterable[str] = (),
        *,
        device: str | None = None,
        limit: int | None = None,
    ) -> Snapshot:
        """Everything at this instant. `detail` names what to add in full.

        `device` (a unique id) and `limit` narrow the details, never the devices, processes and sums:
        rows of that device only; of buffers, circular buffers and kernels the largest `limit`, of
        programs and events the latest, of L1 buffers beside the cores those of the lowest addresses.
        """

    def close(self) -> None:
        """Releases what it holds; a later `read` opens it again."""


def checked(detail: Iterable[str]) -> list[str]:
    """The names of details, each known, once."""
    wanted = sorted(set(detail))
    unknown = [name for name in wanted if name not in DETAILS]
    if unknown:
        raise BadInput(f"there is no detail {unknown[0]!r}; known are {', '.join(DETAILS)}")
    return wanted


def idle_host() -> Snapshot:
    """Of a host on which nothing uses a device."""
    host = {"name": os.uname().nodename, "ttmem": __version__, "shared_memory": counter_directory()}
    return Snapshot(now_ns(), host, (), (), (), Losses(0, 0, 0))
