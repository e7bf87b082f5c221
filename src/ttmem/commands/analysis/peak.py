"""Show what was alive at the peak of each memory.

    ttmem peak run.ttmem
    ttmem peak run.ttmem --memory l1 --by site

For each device and kind of memory, and for L1 as a whole, the live set at the peak is split into circular and
dataflow buffers, intermediates of the running op, persistent buffers, and stale ones: allocated in an iteration and
still alive several iterations later. An iteration is the time between two marks (`ttmem mark`), or between two
entries of the most frequent phase (`ttmem.phase`). Devices with the same result share an entry.

The last table shows how small the largest free block became in each phase: the largest allocation that would
always have succeeded.

exit codes: 0 done, 1 failed, 2 wrong arguments, or not a recording
"""

from __future__ import annotations

import argparse
from functools import partial

from ttmem.commands.options import add_output_options, add_recording, open_recording, print_answer
from ttmem.errors import BadInput

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
    add = parser.add_argument
    add_recording(parser)
    add("--by", metavar="FIELD", choices=BY, help=f"group by {', '.join(BY)}")
    add("--memory", metavar="KIND", choices=MEMORIES, help=f"only one of {', '.join(MEMORIES)}")
    add(
        "--stale",
        metavar="N",
        type=int,
        default=3,
        help="iterations after which a buffer is stale (default 3)",
    )
    add("--top", metavar="N", type=int, default=TOP, help="holders per peak (default 5; 0: all)")
    add_output_options(parser)


def run(options: argparse.Namespace) -> int:
    from ttmem.analysis.composition import compositions
    from ttmem.analysis.free_space import least_free
    from ttmem.analysis.history import History
    from ttmem.views.analysis.peak import memory_name, peak_document, render_peaks

    if options.stale < 1 or options.top < 0:
        raise BadInput("--stale must be 1 or more, and --top 0 or more")
    with open_recording(options.file) as recording:
        history = History(recording)
        if not history.device_peaks:
            history.need_allocations("peaks")
        wanted = MEMORIES.get(options.memory)
        found = [
            composition
            for composition in compositions(history, stale_after=options.stale)
            if wanted is None or composition.memory in wanted
        ]
        least = [
            least for least in least_free(history) if wanted is None or least.kind.lower() in wanted
        ]
        if not found and not options.json:
            print(f"no {memory_name(options.memory)} was used in {history.name}")
            return 0
        by = (options.by,) if options.by else ()
        print_answer(
            options,
            lambda: peak_document(history, found, least, by),
            partial(render_peaks, history, found, least, by=by, top=options.top),
        )
    return 0
