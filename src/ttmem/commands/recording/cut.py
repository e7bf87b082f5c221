"""Copy a part of a recording to a new file.

    ttmem cut run.ttmem --from 60s --to 90s -o part.ttmem

Positions ('#231') and clock times (14:05:30) stay the same: `ttmem ps part.ttmem --at 14:05:30` shows what the
whole recording shows. Times since the start (12.5s) count from the beginning of the part. The part begins with
the batch of events that contains --from.

exit codes: 0 done, 1 failed, 2 wrong arguments, or not a recording
"""

from __future__ import annotations

import argparse
import sys

from ttmem.commands.options import (
    add_overwrite,
    add_recording,
    check_output,
    ended_by_signals,
    open_recording,
    part_begins,
    path,
)
from ttmem.sizes import human


def prepare(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_recording(parser)
    add(
        "--from",
        dest="start",
        metavar="WHEN",
        default="start",
        help="where to begin: 12.5s, peak:l1, oom, ... as for `ttmem ps --at` (default start)",
    )
    add("--to", dest="end", metavar="WHEN", default="end", help="where to end (default end)")
    add("-o", "--output", metavar="OUT", type=path, required=True, help="the file to write")
    add_overwrite(parser, "OUT")


def run(options: argparse.Namespace) -> int:
    from ttmem.recording.cut import cut
    from ttmem.recording.files import completed_file

    with ended_by_signals(), open_recording(options.file) as recording:
        start, end = part_begins(recording, options.start), recording.instant(options.end)
        check_output(options.output, options.file, overwrite=options.overwrite)
        with completed_file(options.output, overwrite=options.overwrite) as sink:
            first = cut(recording, start, end, sink)
    if first > start.position:
        print(
            f"records are missing at --from {options.start}; the part begins with position {first:,}",
            file=sys.stderr,
        )
    print(f"{options.output}: {human(sink.size)}, {end.position - first:,} records")
    return 0
