"""Snapshots from a recording."""

from __future__ import annotations

from collections.abc import Iterable

from ttmem.feeds.feed import checked
from ttmem.recording import Recording
from ttmem.snapshots import Snapshot


class RecordingFeed:
    """A recording at one instant; at its end it follows a file that is still being written."""

    def __init__(self, file: str, at: str | float = "end") -> None:
        """BadInput if the file is no recording, or `at` no instant of it."""
        self._file = file
        self.at = at  # may be changed between two reads
        self.reached: tuple[int, int] | None = None  # position and time of the last snapshot
        self._recording: Recording | None = Recording(file)
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
        instant = self.recording.instant(self.at)
        self.reached = instant.position, instant.time_ns
        return self.recording.snapshot(instant, wanted, device=device, limit=limit)

    def close(self) -> None:
        if self._recording is not None:
            self._recording.close()
            self._recording = None
