"""Show who uses the memory of each device, as a table or as JSON.

One picture of all devices and processes: from the server (`ttmem serve`) if there is one, else from
the counters that stock ttnn publishes in shared memory. Sizes in the table are binary (KiB, MiB,
GiB); JSON has bytes. Kernel code stands apart and is in no sum. docs/numbers.md says what each
number means.

With --telemetry it also reads temperature, power and clocks from the driver's files on this host, those of
cards that no process uses among them (docs/telemetry.md). No root and no server are needed for that.

With --watch on a terminal the picture is cut to the window: what is left out is named below it.

exit codes: 0 done, 1 failed, 2 wrong arguments, 3 neither server nor shared memory, 4 the server
refused
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections import deque
from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from ttmem.commands.picture_options import add_picture_options
from ttmem.commands.source_options import add_umd_option, named
from ttmem.errors import BadInput, Refused, TtmemError
from ttmem.snapshots import Snapshot, to_json
from ttmem.views.groupings import BY
from ttmem.views.selection import NotThere, select
from ttmem.views.terminal import Screen, as_json, spelled, wants_color, width
from ttmem.views.text import clean, wrap

if TYPE_CHECKING:
    from ttmem.feeds import Feed
    from ttmem.sources.umd import Discovery
    from ttmem.views.note import Note

TREND_NS = 10_000_000_000  # over a second or less, 'growing' and 'flat' would contradict each other


def prepare(parser: argparse.ArgumentParser) -> None:
    """Options of `ttmem ps`."""
    add_picture_options(parser)
    parser.add_argument(
        "--detail",
        metavar="LIST",
        type=_names,
        default=(),
        help="with --json: add programs, buffers, cores, events, history (comma separated)",
    )
    parser.add_argument(
        "--watch",
        metavar="SECONDS",
        nargs="?",
        type=_seconds,
        const=1.0,
        help="repeat every SECONDS (default 1); with --json one document per line; Ctrl-C ends it",
    )
    parser.add_argument("--kernels", action="store_true", help="add the kernel table by type")
    parser.add_argument(
        "--telemetry",
        action="store_true",
        help="add temperature, power, clocks, ... of every card, from the driver; no chip is touched",
    )
    add_umd_option(parser)
    parser.add_argument(
        "--sysfs",
        metavar="DIR",
        type=named,
        help="with --telemetry: where sysfs is (default /sys, or TTMEM_SYSFS)",
    )
    parser.add_argument(
        "--by",
        choices=tuple(BY),
        help="group live bytes instead: by call site, operation, phase (with the probe) or process",
    )


def run(options: argparse.Namespace) -> int:
    """Prints one picture, or one after the other."""
    from ttmem.feeds import open_feed

    _check(options)
    once = options.watch is None
    feed = open_feed(options.socket, options.shm, discovery=_discovery(options.umd, once))
    if options.telemetry:
        from ttmem.feeds.telemetry import telemetry_feed

        feed = telemetry_feed(feed, options.sysfs, umd=options.umd, settled=once)
    try:
        if options.watch is None:
            print(_shown(options, _look(options, feed)))
        else:
            with suppress(KeyboardInterrupt):  # how a watch ends
                _watch(options, feed)
    finally:
        feed.close()
    return 0


def _discovery(wanted: bool, once: bool) -> Discovery | None:
    if not wanted:
        return None
    from ttmem.sources.umd import discovery

    return discovery(wanted=True, once=once)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= 86_400:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds above 0")
    return seconds


def _check(options: argparse.Namespace) -> None:
    from ttmem.snapshots.detail import DETAILS

    if options.detail and not options.json:
        raise BadInput("--detail adds to the JSON document; give --json too")
    if options.kernels and options.json:
        raise BadInput("--kernels is for the table; with --json use --detail programs")
    if options.sysfs and not options.telemetry:
        raise BadInput("--sysfs is for telemetry; give --telemetry too")
    if options.by and options.telemetry:
        raise BadInput("--by shows groups of live buffers; --telemetry does not go with it")
    if options.by and (options.detail or options.kernels):
        raise BadInput(
            "--by shows groups of live buffers; --detail and --kernels do not go with it"
        )
    for name in options.detail:
        if name not in DETAILS:
            raise BadInput(f"there is no detail {name!r}; known are {', '.join(DETAILS)}")


def _look(options: argparse.Namespace, feed: Feed) -> Snapshot:
    detail = ("buffers",) if options.by else ("programs",) if options.kernels else options.detail
    return select(feed.read(detail), options.device, options.pid)


def _shown(
    options: argparse.Namespace,
    picture: Snapshot,
    earlier: Snapshot | None = None,
    height: int | None = None,
) -> str:
    if options.by:
        from ttmem.commands.ps_groups import grouped_text

        return grouped_text(options, picture)
    if options.json:
        return as_json(to_json(picture), sys.stdout.isatty() and options.watch is None)
    from ttmem.views.table import render  # JSON starts 15 ms sooner without it

    text = render(
        picture,
        failures=_failures(options, picture),
        width=width(sys.stdout),
        color=wants_color(sys.stdout, options.no_color),
        kernels=options.kernels,
        earlier=earlier,
        height=height,
        chosen=bool(options.device or options.pid),
    )
    return spelled(text, sys.stdout)


def _failures(options: argparse.Namespace, picture: Snapshot) -> list[Note]:
    """What failed in the processes of the picture, as far as their regions can be read from here."""
    from ttmem.sources.probe_folder import has_regions, probe_folder

    folder = probe_folder(options.shm)
    if not has_regions(folder):
        return []
    from ttmem.commands.ps_failures import notes_of_failures

    return notes_of_failures(folder, picture)


def _watch(options: argparse.Namespace, feed: Feed) -> None:
    in_place = sys.stdout.isatty() and not options.json
    if in_place:
        signal.signal(signal.SIGTERM, _leave)
    with Screen(sys.stdout) if in_place else nullcontext() as screen:
        past: deque[Snapshot] = deque()
        said = ""
        while True:
            began = time.monotonic()
            try:
                picture = _look(options, feed)
            except TtmemError as problem:
                said = _complain(screen, problem, said)
            else:
                said = ""
                _remember(past, picture)
                earlier = past[0] if len(past) > 1 else None
                height = None if screen is None else screen.height
                _show(screen, _shown(options, picture, earlier, height), options.json)
            time.sleep(max(0.0, options.watch - (time.monotonic() - began)))


def _leave(number: int, _: object) -> None:
    """Out through the `with`, which gives the cursor back."""
    sys.exit(128 + number)


def _remember(past: deque[Snapshot], picture: Snapshot) -> None:
    past.append(replace(picture, detail={}))
    while len(past) > 2 and picture.time_ns - past[1].time_ns >= TREND_NS:
        past.popleft()


def _show(screen: Screen | None, text: str, as_json: bool) -> None:
    if screen is not None:
        screen.draw(text)
    else:
        print(text if as_json else f"{text}\n", flush=True)


def _complain(screen: Screen | None, problem: TtmemError, said: str) -> str:
    """What is not there may come: say so, and go on. What cannot change ends the watch."""
    if isinstance(problem, (BadInput, Refused)) and not isinstance(problem, NotThere):
        raise problem
    text = clean(f"ttmem: {problem}")
    if screen is not None:
        screen.draw("\n".join([*wrap(text, width(sys.stdout)), "", "trying again; Ctrl-C ends"]))
    elif text != said:
        print(f"{text} (trying again)", file=sys.stderr, flush=True)
    return text
