"""Convert a recording for other tools.

Formats for events (traces, tables) get the whole recording, or the range from --from to --until. Formats for live
memory (profiles, stacks) show it at one time: --at, by default the first failed allocation in the range, or else its
peak of L1 used, or of DRAM if nothing used L1. Times are written as for `ttmem ps FILE --at`: 12.5s, 2m30s, peak:l1,
peak:dram, oom, start, end.

  ttmem export run.ttmem --to perfetto -o run.pftrace
  ttmem export run.ttmem --to parquet -o run.parquet
  ttmem export run.ttmem --to pprof --at peak:dram -o heap.pb.gz
  ttmem export run.ttmem --to csv | head

exit codes: 0 done, 1 the output could not be written, 2 wrong arguments, or not a recording
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

from ttmem.commands.options import (
    add_recording,
    ended_by_signals,
    flag,
    open_recording,
    part_begins,
    progress_line,
)
from ttmem.errors import BadInput
from ttmem.events import Amounts
from ttmem.sizes import human, several
from ttmem.snapshots import Question

if TYPE_CHECKING:
    from ttmem.recording import Instant, Recording

FORMATS = (
    "perfetto",
    "parquet",
    "pprof",
    "speedscope",
    "collapsed",
    "memory-viz",
    "visualizer",
    "csv",
    "jsonl",
)
AT_ONE_TIME = ("pprof", "speedscope", "collapsed", "memory-viz")


def prepare(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_recording(parser)
    add("--to", metavar="FORMAT", required=True, choices=FORMATS, help=", ".join(FORMATS))
    add(
        "-o",
        "--output",
        metavar="PATH",
        help="the file or directory to write (default: standard output)",
    )
    add("--from", dest="first", metavar="TIME", help="begin here (default: everything)")
    add("--until", metavar="TIME", default="end", help="end here")
    add("--at", metavar="TIME", help="the time to show, for profiles and stacks")
    flag(parser, "--quiet", "print neither progress nor the size of the file")


def run(options: argparse.Namespace) -> int:
    from ttmem.exporters import export
    from ttmem.exporters.request import ExportRequest
    from ttmem.recording import Instant

    path = None if options.output in (None, "-") else options.output
    if path is None and sys.stdout.isatty() and options.to not in ("csv", "jsonl", "collapsed"):
        raise BadInput(
            f"{options.to} is not text for a terminal; name a file with -o, or use a pipe"
        )
    if options.at is not None and options.to not in AT_ONE_TIME:
        raise BadInput(
            f"--at is for {', '.join(AT_ONE_TIME)}; {options.to} has the whole recording: choose a part with --from and"
            " --until"
        )
    with ended_by_signals(), open_recording(options.file) as recording:
        # What was alive when the recording began has times before its start; by default it is included.
        everything = Instant(recording.info().first, 0)
        first = everything if options.first is None else part_begins(recording, options.first)
        last = recording.instant(options.until)
        if last.position < first.position:
            raise BadInput(f"--until {options.until} is before --from {options.first}")
        at = recording.instant(options.at) if options.at else _shown(recording, first, last)
        progress = progress_line(first.position, last.position, options.quiet)
        request = ExportRequest(recording, first, last, at, progress)
        export(request, options.to, path, sys.stdout.buffer)
        _report_losses(recording)
        if options.to == "memory-viz":
            _report_circular(recording, at)
    if path is not None and not options.quiet:
        print(f"{path}: {_written(path)}")
    return 0


def _written(path: str) -> str:
    """'12.3 KiB', or '80.1 KiB in 5 files' for a directory."""
    if not os.path.isdir(path):
        return human(os.path.getsize(path))
    sizes = [entry.stat().st_size for entry in os.scandir(path)]
    return f"{human(sum(sizes))} in {several(len(sizes), 'file')}"


def _shown(recording: Recording, first: Instant, last: Instant) -> Instant:
    """Without --at: the first failure in the range, else its peak of L1 used, else that of DRAM."""
    failures = (mark.position for mark in recording.markers if mark.kind == "failure")
    found = next((at for at in failures if first.position <= at <= last.position), None)
    if found is not None:
        return recording.instant(f"#{found}")
    return recording.busiest(first, last)


def _report_circular(recording: Recording, at: Instant) -> None:
    """What ttmem counts and the format has no place for."""
    held = (one.devices.values() for one in recording.snapshot(at, Question()).processes)
    circular = sum(Amounts.total(amounts).cb for amounts in held)
    if circular:
        text = f"{human(circular)} of circular buffers at --at are left out: memory_viz shows buffers alone"
        print(f"ttmem: {text}", file=sys.stderr)


def _report_losses(recording: Recording) -> None:
    info = recording.info()
    if info.lost:
        print(
            f"ttmem: {info.lost:,} events are missing: they were lost during recording",
            file=sys.stderr,
        )
    for damage in info.damages:
        print(f"ttmem: {damage}", file=sys.stderr)
    for first, end in recording.gaps.items():
        what = "the state after them is that of the next key frame"
        if end == info.end:
            what = "there is no state after them"
        print(f"ttmem: records {first:,} to {end:,} cannot be used; {what}", file=sys.stderr)
