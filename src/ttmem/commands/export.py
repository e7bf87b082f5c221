"""Convert a recording for other tools.

What happened is exported from the whole recording, or from the range that --from and --until select. What was alive
(profiles, stacks) is exported at one instant: --at, by default the first failed allocation, or else the peak of L1
used. Instants are written as in `ttmem ps FILE --at`: 12.5s, 2m30s, peak:l1, peak:dram, oom, start, end.

  ttmem export run.ttmem --to perfetto -o run.pftrace
  ttmem export run.ttmem --to parquet -o run.parquet
  ttmem export run.ttmem --to pprof --at peak:dram -o heap.pb.gz
  ttmem export run.ttmem --to csv | head
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from ttmem.commands.options import progress_line
from ttmem.errors import BadInput

if TYPE_CHECKING:
    from ttmem.exporters.events import ExportRange
    from ttmem.recording import Recording

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


def prepare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a recording")
    parser.add_argument(
        "--to", metavar="FORMAT", required=True, choices=FORMATS, help=", ".join(FORMATS)
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="PATH",
        help="the file or directory to write; standard output if left out",
    )
    parser.add_argument(
        "--from", dest="first", metavar="TIME", help="begin here (default: everything)"
    )
    parser.add_argument("--until", metavar="TIME", default="end", help="end here")
    parser.add_argument("--at", metavar="TIME", help="the instant for formats that show one")
    parser.add_argument("--quiet", action="store_true", help="no progress line")


def run(options: argparse.Namespace) -> int:
    from ttmem.exporters import Request, export
    from ttmem.exporters.events import ExportRange
    from ttmem.recording import Recording

    path = None if options.output in (None, "-") else options.output
    if path is None and sys.stdout.isatty() and options.to not in ("csv", "jsonl", "collapsed"):
        raise BadInput(
            f"{options.to} is not text for a terminal; name a file with -o, or use a pipe"
        )
    with Recording(options.file) as recording:
        # What was alive when the recording began has times before its start; by default it is included.
        first = (
            recording.info().first if options.first is None else _position(recording, options.first)
        )
        span = ExportRange(first, _position(recording, options.until))
        if span.last < span.first:
            raise BadInput(f"--until {options.until} is before --from {options.first}")
        at = _instant(recording, options.at, span)
        progress = progress_line(span.first, span.last, options.quiet)
        export(Request(recording, span, at, progress), options.to, path, sys.stdout.buffer)
        _report_losses(recording)
    return 0


def _instant(recording: Recording, wanted: str | None, span: ExportRange) -> int:
    """The position to show: what was asked for, else the first failure of the span, else the peak of L1 used."""
    if wanted is not None:
        return _position(recording, wanted)
    failures = (mark.position for mark in recording.markers if mark.kind == "failure")
    found = next((at for at in failures if span.first <= at <= span.last), None)
    return _position(recording, "peak:l1_used") if found is None else found


def _position(recording: Recording, when: str) -> int:
    return recording.instant(when).position


def _report_losses(recording: Recording) -> None:
    info = recording.info()
    if info.lost:
        print(
            f"ttmem: {info.lost:,} events are missing: they were lost during recording",
            file=sys.stderr,
        )
    for damage in info.damages:
        print(f"ttmem: {damage}", file=sys.stderr)
