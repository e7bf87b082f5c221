"""Watch the memory of all devices live: the tt-smi of memory.

Views are switched by digits: overview, one device with its history, cores, kernels and programs,
buffers, events. `h` shows all keys and how each number is made; `q` quits. The monitor asks the
server (`ttmem serve`) if there is one, else it reads the counters that stock ttnn publishes in shared
memory; if there is neither, it waits.

--once prints one view as text, for a file or a program; `ttmem ps --json` has the same numbers as data.

exit codes: 0 done, 1 failed, 2 wrong arguments or no terminal, 3 neither server nor
shared memory (with --once), 4 the server refused
"""

from __future__ import annotations

import argparse

from ttmem.commands.options import add_choice_options, add_source_options, add_umd_option

FASTEST, SLOWEST = 0.1, 3600.0  # seconds


def prepare(parser: argparse.ArgumentParser) -> None:
    """Options of `ttmem top`."""
    add_source_options(parser)
    add_umd_option(parser)
    parser.add_argument(
        "--interval",
        metavar="SECONDS",
        type=_seconds,
        default=1.0,
        help="seconds between two pictures (default 1, at least 0.1)",
    )
    add_choice_options(parser)
    parser.add_argument(
        "--page", metavar="NAME", default="1", help="the first view: its name or its digit"
    )
    parser.add_argument("--once", action="store_true", help="print the view as text, and end")
    parser.add_argument("--no-color", action="store_true", help="no colour, as with NO_COLOR=1")
    parser.add_argument(
        "--ascii", action="store_true", help="no block and Braille signs, for old terminals"
    )


def run(options: argparse.Namespace) -> int:
    """Prints one picture, or runs the monitor."""
    from ttmem.commands import live_monitor  # the pages would make every other verb start later
    from ttmem.feeds import open_feed
    from ttmem.hw.umd import discovery

    show = live_monitor.print_once if options.once else live_monitor.watch_live
    found = discovery(wanted=options.umd, once=options.once)
    return show(open_feed(options.socket, options.shm, discovery=found), options)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not FASTEST <= seconds <= SLOWEST:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no number of seconds from {FASTEST:g} to {SLOWEST:g}"
        )
    return seconds
