"""Extract a part of a recording as a recording of its own.

    ttmem cut run.ttmem --from 60s --to 90s -o part.ttmem

Positions and times stay those of the whole: `ttmem ps part.ttmem --at 14:05:30` shows what the whole
shows. The part begins with the batch of events in which --from lies.

exit codes: 0 done, 1 failed, 2 wrong arguments, or no recording
"""

from __future__ import annotations

import argparse

from ttmem.commands.options import path
from ttmem.sizes import human


def prepare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=path, help="a recording")
    parser.add_argument(
        "--from",
        dest="start",
        metavar="WHEN",
        default="start",
        help="where to begin: 12.5s, peak:l1, oom, ... as for `ttmem ps --at` (default start)",
    )
    parser.add_argument(
        "--to", dest="end", metavar="WHEN", default="end", help="where to end (default end)"
    )
    parser.add_argument(
        "-o", "--output", metavar="OUT", type=path, required=True, help="the file to write"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace OUT if it exists")


def run(options: argparse.Namespace) -> int:
    from ttmem.recording import Recording
    from ttmem.recording.cut import cut
    from ttmem.recording.writer import FileSink

    with Recording(options.file) as recording:
        start, end = recording.instant(options.start), recording.instant(options.end)
        sink = FileSink(options.output, overwrite=options.overwrite)
        try:
            cut(recording, start, end, sink)
        finally:
            sink.close()
    print(f"{options.output}: {human(sink.size)}, {end.position - start.position:,} records")
    return 0
