"""Show what was alive when the most was held.

    ttmem peak run.ttmem
    ttmem peak run.ttmem --memory l1 --by site

For each device and kind of memory, and for all of L1: the live set at the maximum. It is split into circular and
dataflow buffers, intermediates of the op that was running, what is persistent, and what is stale: allocated in an
iteration and still alive several iterations later. Iterations are the time between two marks (`ttmem mark`), or
between two entries of the phase that comes most often (`ttmem.phase`). Devices that did the same are shown together.

The last table has the smallest value that the largest free block had in each phase: what the next allocation could
still get.

exit codes: 0 done, 1 failed, 2 wrong arguments, or no recording
"""

from __future__ import annotations

import argparse
import sys

from ttmem.commands.options import add_output_options, path
from ttmem.errors import BadInput
from ttmem.views.terminal import as_json, spelled, wants_color, width

TOP = 5
BY = ("site", "stack", "op", "phase", "pid")
MEMORIES = {
    "l1": ("l1_used", "l1", "cb"),
    "l1_used": ("l1_used",),
    "l1_small": ("l1_small",),
    "cb": ("cb",),
    "dram": ("dram",),
    "trace": ("trace",),
}


def prepare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=path, help="a recording")
    parser.add_argument("--by", metavar="FIELD", choices=BY, help=f"group by {', '.join(BY)}")
    parser.add_argument(
        "--memory", metavar="KIND", choices=MEMORIES, help=f"only one of {', '.join(MEMORIES)}"
    )
    parser.add_argument(
        "--stale",
        metavar="N",
        type=int,
        default=3,
        help="stale is what an iteration allocated more than N iterations ago (default 3)",
    )
    parser.add_argument(
        "--top", metavar="N", type=int, default=TOP, help="holders per peak (default 5; 0: all)"
    )
    add_output_options(parser)


def run(options: argparse.Namespace) -> int:
    from ttmem.analysis.composition import compositions
    from ttmem.analysis.free_space import least_free
    from ttmem.analysis.history import History
    from ttmem.recording import Recording
    from ttmem.views.peak import peak_document, render_peaks

    if options.stale < 1 or options.top < 0:
        raise BadInput("--stale must be 1 or more, and --top not negative")
    with Recording(options.file) as recording:
        history = History(recording)
        history.need_allocations("peaks")
        wanted = MEMORIES.get(options.memory)
        found = [
            one
            for one in compositions(history, stale_after=options.stale)
            if wanted is None or one.memory in wanted
        ]
        least = [one for one in least_free(history) if wanted is None or one.kind.lower() in wanted]
        by = (options.by,) if options.by else ()
        if options.json:
            print(as_json(peak_document(history, found, least, by), sys.stdout.isatty()))
            return 0
        text = render_peaks(
            history,
            found,
            least,
            by=by,
            top=options.top,
            width=width(sys.stdout),
            color=wants_color(sys.stdout, options.no_color),
        )
    print(spelled(text, sys.stdout))
    return 0
