"""What every feed can do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from ttmem.errors import BadInput
from ttmem.snapshots import DETAILS, Snapshot


class Feed(Protocol):
    """A place to ask for pictures, again and again. Trouble is a TtmemError; the next `read` tries anew."""

    @property
    def name(self) -> str:
        """What it reads, for people: 'server /tmp/...', 'shared memory /dev/shm'."""

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
        """Gives back what it holds; a later `read` opens it again."""


def checked(detail: Iterable[str]) -> list[str]:
    """The names of details, each known, once."""
    wanted = sorted(set(detail))
    unknown = [name for name in wanted if name not in DETAILS]
    if unknown:
        raise BadInput(f"there is no detail {unknown[0]!r}; known are {', '.join(DETAILS)}")
    return wanted
