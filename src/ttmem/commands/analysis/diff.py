"""Compare two recordings: what made the peaks grow or shrink.

    ttmem diff yesterday.ttmem today.ttmem
    ttmem diff main.ttmem branch.ttmem --markdown --fail-if 'l1_used.peak > +2%'
    ttmem diff yesterday.ttmem today.ttmem -o diff.html

Shows the peak of each memory in both runs, on the device that held the most, and what was added, removed, grown or
shrunk at that peak. Buffers are matched by name (call site, op, phase or size), not by address. The circular buffers
of each program and the number of allocations follow. Recordings with losses are not compared.

--fail-if LIMIT exits with 1 if a limit is exceeded, and may be repeated: 'l1_used.peak > +2%' (all of L1, row "L1
used"; l1.peak is row "L1"), 'dram.peak > +64 MiB' (relative to A), 'dram.peak > 8 GiB', 'allocations > +5%'. The peak
of a memory that neither run used is 0.

exit codes: 0 done, 1 a limit is exceeded, or a recording is incomplete, 2 wrong arguments, not a recording, or
nothing in common
"""

from __future__ import annotations

import argparse
from functools import partial

from ttmem.commands.options import (
    add_output_options,
    add_overwrite,
    check_output,
    flag,
    open_recording,
    path,
    print_answer,
)
from ttmem.commands.recording.report import write_page
from ttmem.errors import BadInput

BY = ("site", "op", "phase", "size")
TOP = 10


def prepare(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("before", metavar="A", type=path, help="a recording")
    add("after", metavar="B", type=path, help="another recording of the same program")
    add("--by", choices=BY, default="site", help="match by this (default: site)")
    add("--top", metavar="N", type=int, default=TOP, help="rows to show (default 10; 0: all)")
    add(
        "--fail-if",
        metavar="LIMIT",
        action="append",
        default=[],
        help="exit with 1 if this is exceeded, such as 'l1_used.peak > +2%%'; may be repeated",
    )
    flag(parser, "--markdown", "print Markdown for a pull request")
    add(
        "-o",
        "--output",
        metavar="PATH",
        type=path,
        help="write an HTML page with both timelines instead of printing",
    )
    add_overwrite(parser, "PATH")
    add_output_options(parser)


def run(options: argparse.Namespace) -> int:
    from ttmem.analysis.diff import compare, parse_limit
    from ttmem.analysis.history import History
    from ttmem.views.analysis.diff import diff_document, markdown_diff, render_diff

    if options.top < 0:
        raise BadInput("--top must be 0 (all) or more")
    if options.markdown and options.json:
        raise BadInput("--markdown and --json cannot be combined")
    if options.output and (options.markdown or options.json):
        raise BadInput("-o writes a page; --markdown and --json are printed")
    if options.output:
        files = options.before, options.after
        check_output(options.output, *files, overwrite=options.overwrite)
    limits = [parse_limit(text) for text in options.fail_if]
    with open_recording(options.before) as before, open_recording(options.after) as after:
        histories = History(before), History(after)
        found = compare(*histories, options.by)
        if options.output:
            from ttmem.web.comparison import timelines

            runs = timelines(histories[0]), timelines(histories[1])
    broken = [limit for limit in limits if limit.broken_by(found)]
    if options.output:
        from ttmem.web.comparison import comparison

        write_page(options.output, comparison(found, broken, runs, options.by))
    elif options.markdown:
        print(markdown_diff(found, broken, by=options.by, top=options.top))
    else:
        print_answer(
            options,
            lambda: diff_document(found, broken),
            partial(render_diff, found, broken, by=options.by, top=options.top),
        )
    return 1 if broken else 0
