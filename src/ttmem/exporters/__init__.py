"""Recordings for other tools: one writer for each format."""

from __future__ import annotations

import errno
import io
import json
import os
from collections.abc import Callable, Iterator
from functools import cache
from typing import BinaryIO, NamedTuple

from ttmem.errors import BadInput, TtmemError
from ttmem.events import MemoryKind
from ttmem.exporters.events import EventRow, ExportRange, Progress, event_rows
from ttmem.feeds.recorded_telemetry import SensorRow, sensor_rows
from ttmem.recording import Batch, Instant, Marker, Recording, Stretch
from ttmem.snapshots import Question, Snapshot


class ExportRequest(NamedTuple):
    """What to export: a span for what happened, an instant for what was alive."""

    recording: Recording
    first: Instant
    last: Instant
    at: Instant
    progress: Progress = lambda position: None

    @property
    def span(self) -> ExportRange:
        return ExportRange(self.first.position, self.last.position)

    def rows(self, span: ExportRange | None = None) -> Iterator[EventRow]:
        for batch in self.batches(span):
            yield from event_rows(batch)

    def batches(self, span: ExportRange | None = None) -> Iterator[Batch]:
        """The rows in batches, without what was alive before recording started, which is reported as events too."""
        for batch in self.recording.batches(*(span or self.span)):
            self.progress(batch.position)
            if batch.source_position is not None:
                yield batch

    def stretches(self) -> Iterator[Stretch]:
        for stretch in self.recording.stretches(*self.span):
            self.progress(stretch.first)
            yield stretch

    def samples(self) -> Iterator[HeldSample]:
        """What each device held, one each second: of processes that only counters know, too."""
        first, last = self.first.time_ns, self.last.time_ns
        reached: dict[str, int] = {}
        for device, time, amounts in self.recording.samples():
            if max(first, reached.get(device, 0) + 1) <= time <= last:  # one may occur twice
                reached[device] = time
                yield HeldSample(device, time, amounts)

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
            if self.span.first <= mark.position <= self.span.last:
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


class HeldSample(NamedTuple):
    """What a device held at a time, in the order of `SAMPLED`."""

    device: str
    time_ns: int
    amounts: tuple[int, ...]


class Format(NamedTuple):
    """How to write a format: to a stream, or to a file or directory of its own."""

    about: str
    stream: Callable[[ExportRequest, BinaryIO], None] | None = None
    path: Callable[[ExportRequest, str], None] | None = None


def _perfetto(request: ExportRequest, out: BinaryIO) -> None:
    from ttmem.exporters.events import operations
    from ttmem.exporters.perfetto import TraceWriter, clocks, heap_profiles
    from ttmem.exporters.profiles import in_use

    shown, end = request.live(request.at), request.live(request.last)
    trace = TraceWriter(end.devices)
    out.write(clocks(request.recording.time_at(request.first.position)))
    for stretch in request.stretches():
        for totals in stretch.totals():
            out.writelines(trace.totals(totals))
    for sample in request.samples():
        out.writelines(trace.sample(sample.device, sample.time_ns, sample.amounts))
    for row in request.sensors():
        out.writelines(trace.sensors(row))
    for one in operations(request.batches()):
        out.writelines(trace.operation(one))
    for marker in request.markers():
        if marker.kind == "mark":
            out.writelines(trace.mark(marker.time_ns, marker.text))
    out.writelines(trace.close(end.time_ns))
    out.write(heap_profiles({one.time_ns: in_use(one) for one in (shown, end)}))


def _pprof(request: ExportRequest, out: BinaryIO) -> None:
    from ttmem.exporters.profiles import allocated, in_use, profile

    snapshot = request.live(request.at)
    made = allocated(request.rows())
    began = request.recording.time_at(request.first.position)
    comment = f"{request.recording.name} at position {request.at.position}"
    duration = max(0, request.recording.time_at(request.last.position) - began)
    out.write(profile(in_use(snapshot), made, snapshot.time_ns, duration, comment))


def _speedscope(request: ExportRequest, out: BinaryIO) -> None:
    from ttmem.exporters.profiles import in_use, speedscope

    document = speedscope(in_use(request.live(request.at)), request.recording.name)
    out.write(json.dumps(document).encode())


def _collapsed(request: ExportRequest, out: BinaryIO) -> None:
    from ttmem.exporters.profiles import collapsed, in_use

    out.write(collapsed(in_use(request.live(request.at))).encode())


def _csv(request: ExportRequest, out: BinaryIO) -> None:
    from ttmem.exporters.tables import write_csv

    text = io.TextIOWrapper(out, encoding="utf-8", newline="")
    write_csv(text, request.rows())
    text.detach()


def _json_lines(request: ExportRequest, out: BinaryIO) -> None:
    from ttmem.exporters.tables import write_json_lines

    text = io.TextIOWrapper(out, encoding="utf-8", newline="")
    write_json_lines(text, request.rows())
    text.detach()


def _memory_viz(request: ExportRequest, out: BinaryIO) -> None:
    from ttmem.exporters.memory_viz import WINDOW, memory_viz

    at = request.at.position
    first = max(request.span.first, min(at, request.span.last) - WINDOW)
    last = min(request.span.last, max(at + 1, first + WINDOW))
    failures = (
        row for row in request.rows(ExportRange(first, last)) if row.event == "allocation_failed"
    )
    stretches = request.recording.stretches(first, last)
    after = request.live(request.recording.instant(f"#{last}"))
    document = memory_viz(after, stretches, failures, cache(request.banks))
    out.write(json.dumps(document, separators=(",", ":")).encode())


def _parquet(request: ExportRequest, path: str) -> None:
    from ttmem.exporters.tables import (
        write_events,
        write_live,
        write_samples,
        write_telemetry,
        write_totals,
    )

    about = request.about()
    os.mkdir(path, 0o700)

    def table(name: str) -> BinaryIO:
        return _private(os.path.join(path, f"{name}.parquet"))

    with table("events") as out:
        write_events(out, request.batches(), about)
    with table("totals") as out:
        write_totals(out, request.stretches(), about)
    with table("samples") as out:
        write_samples(out, request.samples(), about)
    with table("live") as out:
        write_live(out, request.marked(), about)
    with table("telemetry") as out:
        write_telemetry(out, request.sensors(), about)


def _visualizer(request: ExportRequest, path: str) -> None:
    import sqlite3

    from ttmem.exporters.visualizer import write_database

    ends = [request.live(instant, "programs") for instant in (request.first, request.last)]
    os.mkdir(path, 0o700)
    file = os.path.join(path, "db.sqlite")
    _private(file).close()
    try:
        write_database(
            file,
            ends[-1].devices,
            (cb for end in ends for cb in end.circular_buffers or ()),
            cache(request.banks),
            (
                (stretch, request.batches(ExportRange(stretch.first, stretch.end)))
                for stretch in request.recording.stretches(*request.span)
            ),
        )
    except sqlite3.Error as problem:  # a full disk, say
        raise OSError(errno.EIO, str(problem)) from None


FORMATS = {
    "perfetto": Format("a trace for ui.perfetto.dev: counters, ops, phases, heaps", _perfetto),
    "parquet": Format("a directory of tables for DuckDB, pyarrow, Spark, ...", path=_parquet),
    "pprof": Format("a heap profile for `go tool pprof`", _pprof),
    "speedscope": Format("live memory by stack, for speedscope.app", _speedscope),
    "collapsed": Format("live memory by stack, one line each, for flame graphs", _collapsed),
    "memory-viz": Format("a window of events for pytorch.org/memory_viz", _memory_viz),
    "visualizer": Format("a report directory for ttnn-visualizer", path=_visualizer),
    "csv": Format("events, comma-separated", _csv),
    "jsonl": Format("events, one JSON object a line", _json_lines),
}


def export(request: ExportRequest, name: str, path: str | None, out: BinaryIO) -> None:
    """Writes to `path`, which must not exist, or to `out` if `path` is None and the format allows it."""
    form = FORMATS[name]
    if path is None and form.stream is None:
        raise BadInput(f"{name} is a directory and cannot be printed; name one with -o")
    if path is None:
        assert form.stream is not None
        form.stream(request, out)
        return
    part = f"{path}.part-{os.getpid()}"  # a partial export never has the final name
    try:
        if form.stream is not None:
            with _private(part) as file:
                form.stream(request, file)
        elif form.path is not None:
            form.path(request, part)
        if os.path.lexists(path):
            raise BadInput(f"{path} exists; remove it, or name another place with -o")
        os.rename(part, path)
    except OSError as problem:
        _remove(part)
        raise TtmemError(f"{path} cannot be written: {problem.strerror}") from None
    except BaseException:
        _remove(part)
        raise


def _private(path: str) -> BinaryIO:
    """A new file that nobody else may read: exports contain paths and command lines, as recordings do."""
    return open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")


def _remove(path: str) -> None:
    import shutil

    if os.path.isdir(path):
        shutil.rmtree(path, ignore_errors=True)
    elif os.path.lexists(path):
        os.unlink(path)
