"""Recordings for other tools: one writer for each format."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Iterator
from functools import cache
from typing import BinaryIO, NamedTuple

from ttmem.errors import BadInput
from ttmem.events import MemoryKind
from ttmem.exporters.events import EventRow, ExportRange, Progress, batches, event_rows
from ttmem.recording import Batch, Recording, Totals
from ttmem.snapshots import Snapshot


class Request(NamedTuple):
    """What to export: a span for what happened, an instant for what was alive."""

    recording: Recording
    span: ExportRange
    at: int  # a position
    progress: Progress = lambda position: None

    def rows(self, span: ExportRange | None = None, *, state: bool = False) -> Iterator[EventRow]:
        """`state`: with what was alive before somebody looked, which is told as events too."""
        for batch in self.batches(span, state=state):
            yield from event_rows(batch)

    def batches(self, span: ExportRange | None = None, *, state: bool = False) -> Iterator[Batch]:
        """What `rows` gives, by the batch."""
        for batch in batches(self.recording, span or self.span, self.progress):
            if state or batch.source_position is not None:
                yield batch

    def totals(self) -> Iterator[Totals]:
        for stretch in self.recording.stretches(*self.span):
            self.progress(stretch.first)
            yield from stretch.totals()

    def live(self, at: int | None = None) -> Snapshot:
        """With every live buffer."""
        return self.recording.at(f"#{self.at if at is None else at}", ["buffers"])

    def about(self) -> dict[str, str]:
        """What a file says of its origin."""
        described = self.recording.info().recorded
        host = described.get("host")
        return {"exporter": "ttmem", "recording": self.recording.name, "host": str(host or "")}

    def banks(self, device: str, memory: str) -> int:
        """How many banks a device has for a kind of memory; 1 if nobody declared that."""
        return self.recording.banks(device, MemoryKind[memory]).number or 1


class Format(NamedTuple):
    """How to write one format: into a stream, or into a file or directory of its own."""

    about: str
    stream: Callable[[Request, BinaryIO], None] | None = None
    path: Callable[[Request, str], None] | None = None


def _perfetto(request: Request, out: BinaryIO) -> None:
    from ttmem.exporters.operations import operations
    from ttmem.exporters.perfetto import TraceWriter, clocks, heap_profiles
    from ttmem.exporters.pprof import in_use

    recording, span = request.recording, request.span
    end = request.live(span.last)
    first_ns = recording.time_at(span.first)
    trace = TraceWriter(end.devices)
    out.write(clocks(first_ns))
    for totals in recording.totals(span.first, span.last):
        out.writelines(trace.totals(totals))
    for one in operations(batches(recording, span, request.progress)):
        out.writelines(trace.operation(one))
    out.writelines(trace.close(end.time_ns))
    out.write(heap_profiles(in_use(end), end.time_ns))


def _pprof(request: Request, out: BinaryIO) -> None:
    from ttmem.exporters.pprof import allocated, in_use, profile

    snapshot = request.live()
    made = allocated(request.rows())
    began = request.recording.time_at(request.span.first)
    comment = f"{request.recording.name} at position {request.at}"
    duration = max(0, request.recording.time_at(request.span.last) - began)
    out.write(profile(in_use(snapshot), made, snapshot.time_ns, duration, comment))


def _speedscope(request: Request, out: BinaryIO) -> None:
    from ttmem.exporters.pprof import in_use
    from ttmem.exporters.stacks import speedscope

    document = speedscope(in_use(request.live()), request.recording.name)
    out.write(json.dumps(document).encode())


def _collapsed(request: Request, out: BinaryIO) -> None:
    from ttmem.exporters.pprof import in_use
    from ttmem.exporters.stacks import collapsed

    out.write(collapsed(in_use(request.live())).encode())


def _csv(request: Request, out: BinaryIO) -> None:
    from ttmem.exporters.tables import write_csv

    text = io.TextIOWrapper(out, encoding="utf-8", newline="")
    write_csv(text, request.rows())
    text.detach()


def _json_lines(request: Request, out: BinaryIO) -> None:
    from ttmem.exporters.tables import write_json_lines

    text = io.TextIOWrapper(out, encoding="utf-8", newline="")
    write_json_lines(text, request.rows())
    text.detach()


def _memory_viz(request: Request, out: BinaryIO) -> None:
    from ttmem.exporters.memory_viz import WINDOW, memory_viz

    first = max(request.span.first, request.at - WINDOW)
    last = min(request.span.last, max(request.at + 1, first + WINDOW))
    rows = request.rows(ExportRange(first, last), state=True)
    document = memory_viz(request.live(first), rows, request.live(last), cache(request.banks))
    out.write(json.dumps(document, separators=(",", ":")).encode())


def _parquet(request: Request, path: str) -> None:
    from ttmem.exporters.tables import write_events, write_live, write_totals

    recording, span, about = request.recording, request.span, request.about()
    marks = [m for m in recording.markers if span.first <= m.position <= span.last]
    os.mkdir(path, 0o700)
    with open(os.path.join(path, "events.parquet"), "xb") as out:
        write_events(out, request.batches(), about)
    with open(os.path.join(path, "totals.parquet"), "xb") as out:
        write_totals(out, request.totals(), about)
    with open(os.path.join(path, "live.parquet"), "xb") as out:
        write_live(out, ((mark, request.live(mark.position)) for mark in marks), about)


def _visualizer(request: Request, path: str) -> None:
    from ttmem.exporters.operations import operations
    from ttmem.exporters.visualizer import write_database

    steps = operations(batches(request.recording, request.span, request.progress))
    before, after = request.live(request.span.first), request.live(request.span.last)
    os.mkdir(path, 0o700)
    write_database(os.path.join(path, "db.sqlite"), before, steps, after, cache(request.banks))


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


def export(request: Request, name: str, path: str | None, out: BinaryIO) -> None:
    """Writes to `path`, which must not exist, or to `out` where that is None and the format allows it."""
    form = FORMATS[name]
    if path is None and form.stream is None:
        raise BadInput(f"{name} is a directory and cannot be printed; name one with -o")
    if path is None:
        assert form.stream is not None
        form.stream(request, out)
        return
    part = f"{path}.part-{os.getpid()}"  # nobody finds half an export under its name
    try:
        if form.stream is not None:
            with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                form.stream(request, file)
        elif form.path is not None:
            form.path(request, part)
        if os.path.lexists(path):
            raise BadInput(f"{path} exists; remove it, or name another place with -o")
        os.rename(part, path)
    except BaseException:
        _remove(part)
        raise


def _remove(path: str) -> None:
    import shutil

    if os.path.isdir(path):
        shutil.rmtree(path, ignore_errors=True)
    elif os.path.lexists(path):
        os.unlink(path)
