"""Compare two recordings: what made the peaks grow or shrink.

    ttmem diff yesterday.ttmem today.ttmem
    ttmem diff main.ttmem branch.ttmem --markdown --fail-if 'l1.peak > +2%'
    ttmem diff yesterday.ttmem today.ttmem -o diff.html

Shows the peak of each memory in both runs, on the device that held most of it, and what was alive then, matched by
name (call site, op, phase or size), not by address: added, removed, grown, shrunk; then the circular buffers of each
program, and how often memory was allocated. Recordings with losses are not compared.

--fail-if LIMIT exits with 1 if a limit is exceeded; it may be repeated: 'l1.peak > +2%' (all of L1), 'dram.peak > +64
MiB' (relative to A), 'dram.peak > 8 GiB', 'allocations > +5%'.

exit codes: 0 done, 1 a limit is exceeded, or a recording is incomplete, 2 wrong arguments, no recording, or nothing in
common
"""

from __future__ import annotations

import argparse
import sys

from ttmem.commands.options import add_output_options, path
from ttmem.commands.report import check_target, write_page
from ttmem.errors import BadInput
from ttmem.views.terminal import as_json, spelled, wants_color, width

BY = ("site", "op", "phase", "size")
TOP = 10


def prepare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("before", metavar="A", type=path, help="a recording")
    parser.add_argument("after", metavar="B", type=path, help="another one, of the same program")
    parser.add_argument("--by", choices=BY, default="site", help="match by this (default: site)")
    parser.add_argument(
        "--top", metavar="N", type=int, default=TOP, help="rows (default 10; 0: all)"
    )
    parser.add_argument(
        "--fail-if",
        metavar="LIMIT",
        action="append",
        default=[],
        help="exit with 1 if this is exceeded, such as 'l1.peak > +2%%'; may be repeated",
    )
    parser.add_argument("--markdown", action="store_true", help="print Markdown for a pull request")
    parser.add_argument(
        "-o",
        "--output",
        metavar="PATH",
        type=path,
        help="write an HTML page with both timelines instead of printing",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace PATH if it exists")
    add_output_options(parser)


def run(options: argparse.Namespace) -> int:
    from ttmem.analysis.diff import compare, parse_limit
    from ttmem.analysis.history import History
    from ttmem.recording import Recording
    from ttmem.views.diff import diff_document, markdown_diff, render_diff

    if options.top < 0:
        raise BadInput("--top must be 0 (all) or more")
    if options.markdown and options.json:
        raise BadInput("--markdown and --json are two forms of the answer; give one of them")
    if options.output and (options.markdown or options.json):
        raise BadInput("-o writes a page; --markdown and --json are printed")
    if options.output:
        check_target(options.output, overwrite=options.overwrite)
    limits = [parse_limit(text) for text in options.fail_if]
    with Recording(options.before) as before, Recording(options.after) as after:
        histories = History(before), History(after)
        found = compare(*histories)
        if options.output:
            from ttmem.web.comparison import timelines

            runs = timelines(histories[0]), timelines(histories[1])
    broken = [limit for limit in limits if limit.broken_by(found)]
    if options.output:
        from ttmem.web.comparison import comparison

        write_page(options.output, comparison(found, broken, runs, options.by))
    elif options.json:
        print(as_json(diff_document(found, broken), sys.stdout.isatty()))
    elif options.markdown:
        print(markdown_diff(found, broken, by=options.by, top=options.top))
    else:
        text = render_diff(
            found,
            broken,
            by=options.by,
            top=options.top,
            width=width(sys.stdout),
            color=wants_color(sys.stdout, options.no_color),
        )
        print(spelled(text, sys.stdout))
    return 1 if broken else 0
