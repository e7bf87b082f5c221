"""Snapshots from a recording."""

from __future__ import annotations

from collections.abc import Iterable

from ttmem.events import Amounts
from ttmem.feeds.feed import checked
from ttmem.recording import Recording
from ttmem.snapshots import Snapshot


class RecordingFeed:
    """A recording at one instant; at its end it follows a file that is still being written."""

    def __init__(self, file: str, at: str | float = "end") -> None:
        """BadInput if the file is not a recording, or has no instant `at`."""
        self._file = file
        self.at = at  # may be changed between two reads
        self.reached: tuple[int, int] | None = None  # position and time of the last snapshot
        self._recording: Recording | None = Recording(file)
        self.growing = False  # the file is still being written
        self.name = self._recording.name
        self._recording.instant(at)

    @property
    def recording(self) -> Recording:
        """Opened again if the feed was closed."""
        if self._recording is None:
            self._recording = Recording(self._file)
        return self._recording

    def read(
        self,
        detail: Iterable[str] = (),
        *,
        device: str | None = None,
        limit: int | None = None,
    ) -> Snapshot:
        """See `Feed.read`."""
        wanted = checked(detail)
        self.recording.refresh()
        self.growing = self.recording.growing
        instant = self.recording.instant(self.at)
        self.reached = instant.position, instant.time_ns
        return self.recording.snapshot(instant, wanted, device=device, limit=limit)

    def go_to_last_use(self) -> str:
        """If nothing is allocated at the end, moves to the last process's end, or to the peak; says where it is.

        Most recordings end after their processes, when there is nothing left to see.
        """
        if self._holds_memory_at("end"):
            return ""
        ends = [one.position for one in self.recording.markers if one.kind == "end"]
        places = {f"#{position}": "just before the last process ended" for position in ends[-1:]}
        places |= {"peak:dram": "at the peak of DRAM", "peak:l1_used": "at the peak of L1"}
        for at, where in places.items():
            if self._holds_memory_at(at):
                return f"opened {where}: nothing is allocated at the end"
        self.at = "end"
        return ""

    def _holds_memory_at(self, at: str) -> bool:
        self.at = at
        held = (process.devices.values() for process in self.read().processes)
        return any(Amounts.total(amounts).all for amounts in held)

    def close(self) -> None:
        if self._recording is not None:
            self._recording.close()
            self._recording = None
