"""What to export of a recording, as its writers read it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import BinaryIO, NamedTuple

from ttmem.events import MemoryKind
from ttmem.exporters.events import EventRow, event_rows
from ttmem.feeds.recorded_telemetry import SensorRow, sensor_rows
from ttmem.recording import Batch, Instant, Marker, Recording, Stretch
from ttmem.snapshots import Question, Snapshot

Progress = Callable[[int], None]  # the position reached


class ExportRequest(NamedTuple):
    """What to export: a span for what happened, an instant for what was alive."""

    recording: Recording
    first: Instant
    last: Instant
    at: Instant
    progress: Progress = lambda position: None

    @property
    def span(self) -> tuple[int, int]:
        """Positions: from the first up to the last."""
        return self.first.position, self.last.position

    def rows(self, span: tuple[int, int] | None = None) -> Iterator[EventRow]:
        for batch in self.batches(span):
            yield from event_rows(batch)

    def batches(self, span: tuple[int, int] | None = None) -> Iterator[Batch]:
        """The rows in batches, without what was alive before recording started, which is reported as events too."""
        for batch in self.recording.batches(*(span or self.span)):
            self.progress(batch.position)
            if batch.source_position is not None:
                yield batch

    def stretches(self) -> Iterator[Stretch]:
        for stretch in self.recording.stretches(*self.span):
            self.progress(stretch.first)
            yield stretch

    def samples(self) -> Iterator[tuple[str, int, tuple[int, ...]]]:
        """(device, time, what it held), one each second: of processes that only counters know, too."""
        first, last = self.first.time_ns, self.last.time_ns
        reached: dict[str, int] = {}
        for device, time, amounts in self.recording.samples():
            if max(first, reached.get(device, 0) + 1) <= time <= last:  # one may occur twice
                reached[device] = time
                yield device, time, amounts

    def marked(self) -> Iterator[tuple[Marker, Snapshot]]:
        """What was alive at failed allocations, marks, starts and ends, and where each phase began first.

        A program may enter a phase thousands of times; with thousands of buffers, that would be more than a disk holds.
        """
        seen = set[tuple[int | None, str]]()
        for mark in self.markers():
            if mark.kind == "phase":
                if (mark.pid, mark.text) in seen:
                    continue
                seen.add((mark.pid, mark.text))
            self.progress(mark.position)
            yield mark, self.live(self.recording.instant(f"#{mark.position}"))

    def markers(self) -> Iterator[Marker]:
        for mark in self.recording.markers:
            if self.first.position <= mark.position <= self.last.position:
                yield mark

    def sensors(self) -> Iterator[SensorRow]:
        """They are read while nothing else happens, too."""
        return sensor_rows(self.recording, self.first.time_ns, self.last.time_ns)

    def live(self, at: Instant, detail: str = "buffers") -> Snapshot:
        """With every live buffer, or another detail."""
        return self.recording.snapshot(at, Question((detail,)))

    def about(self) -> dict[str, str]:
        """What a file says about its origin."""
        described = self.recording.info().recorded
        host = described.get("host")
        return {"exporter": "ttmem", "recording": self.recording.name, "host": str(host or "")}

    def banks(self, device: str, memory: str) -> int:
        """The number of banks that a device has for a kind of memory; 1 if it was not declared."""
        return self.recording.banks(device, MemoryKind[memory]).number or 1


def private_file(path: str) -> BinaryIO:
    """A new file that nobody else may read: exports contain paths and command lines, as recordings do."""
    return open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")
