"""Snapshots from a recording."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ttmem.events import Amounts
from ttmem.fast_dataclasses import replace
from ttmem.feeds.feed import Feed
from ttmem.recording import Instant, Marker, Recording
from ttmem.snapshots import Question, Snapshot


class PastSpan(NamedTuple):
    """The part of the past that is available."""

    started_ns: int
    ended_ns: int
    markers: Sequence[Marker]
    forgotten: bool  # whether there was more before it


class RecordingFeed(Feed):
    """A recording at one instant; at the end of a file that is still being written, it follows the file."""

    def __init__(self, file: str, at: str | float = "end") -> None:
        """BadInput if the file is not a recording, or there is no instant `at`."""
        self._file = file
        self.at = at  # may be changed between reads
        self.reached: tuple[int, int] | None = None  # position and time of the last snapshot
        self._recording: Recording | None = Recording(file)
        self.growing = False  # the file is still being written
        self.telemetry = False
        self.span: PastSpan | None = None  # what the file has, if it has grown since it was opened
        self._name = self._recording.name
        self._recording.instant(at)

    @property
    def name(self) -> str:
        return self._name

    @property
    def recording(self) -> Recording:
        """Reopened if the feed was closed."""
        if self._recording is None:
            self._recording = Recording(self._file)
        return self._recording

    def answer(self, question: Question) -> Snapshot:
        if self.recording.refresh():
            self.span = PastSpan(*self.recording.span, self.recording.markers, forgotten=False)
        self.growing = self.recording.growing
        instant = self.recording.instant(self.at)
        self.reached = instant.position, instant.time_ns
        snapshot = named(self.recording.snapshot(instant, question), self.recording, instant)
        if not self.telemetry:
            return snapshot
        from ttmem.feeds.recorded_telemetry import with_recorded

        return with_recorded(snapshot, self.recording, instant)

    @property
    def has_telemetry(self) -> bool:
        return self.recording.info().telemetry > 0

    def go_to_last_use(self) -> str:
        """If nothing is allocated at the end, moves to just before the last process ended, or to the peak; returns a
        remark.

        Most recordings end after their processes, when there is nothing left to see.
        """
        if self._holds_memory_at("end"):
            return ""
        ends = [marker.position for marker in self.recording.markers if marker.kind == "end"]
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


def named(snapshot: Snapshot, recording: Recording, instant: Instant) -> Snapshot:
    """With the file and the instant."""
    started, ended = recording.span
    shown = {
        "file": recording.info().name,
        "offset_ns": instant.time_ns - started,
        "position": instant.position,
        "at_end": instant.time_ns >= ended,
    }
    return replace(snapshot, host={**snapshot.host, "recording": shown})
