"""Show who uses the memory of each device, as a table or as JSON.

A snapshot of all devices and processes, from the server (`ttmem serve`) if there is one, else from
the counters that stock ttnn publishes in shared memory. Sizes in the table are binary (KiB, MiB,
GiB); JSON has bytes. Kernel code is shown separately and not included in totals. docs/numbers.md
explains each number.

--telemetry also reads temperature, power and clocks from the driver's files on this host, including
cards that no process uses (docs/telemetry.md). This needs neither root nor a server.

With --watch on a terminal, the output is cut to the window, and a last line names what is left out.

exit codes: 0 done, 1 failed, 2 wrong arguments, 3 neither server nor shared memory, 4 the server
refused
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections import deque
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING

from ttmem.commands.options import add_snapshot_options, add_telemetry_options, seconds
from ttmem.errors import BadInput, Refused, TtmemError
from ttmem.snapshots import Snapshot, to_json
from ttmem.text import clean, wrap
from ttmem.views.selection import BY, NotThere, select
from ttmem.views.terminal import Screen, as_json, spelled, wants_color, width

if TYPE_CHECKING:
    from ttmem.feeds import Feed
    from ttmem.hw.umd import Discovery

TREND_NS = 10_000_000_000  # over a second or less, 'growing' and 'flat' would alternate


def prepare(parser: argparse.ArgumentParser) -> None:
    add_snapshot_options(parser)
    parser.add_argument(
        "--detail",
        metavar="LIST",
        type=_names,
        default=(),
        help="with --json: add any of programs, buffers, cores, events, history (comma separated)",
    )
    parser.add_argument(
        "--watch",
        metavar="SECONDS",
        nargs="?",
        type=partial(seconds, least=0.01, most=86_400.0),
        const=1.0,
        help="repeat every SECONDS (default 1) until Ctrl-C; with --json, one document per line",
    )
    parser.add_argument(
        "--delta",
        action="store_true",
        help="with --watch: also show what changed since the previous refresh",
    )
    parser.add_argument("--kernels", action="store_true", help="add the kernel table by type")
    add_telemetry_options(parser)
    parser.add_argument(
        "--tt-smi",
        action="store_true",
        help="print JSON in the form of `tt-smi -s`, with memory added to each device and process",
    )
    parser.add_argument(
        "--by",
        choices=tuple(BY),
        help="group live bytes by call site, operation, phase (these need the probe) or process instead",
    )


def run(options: argparse.Namespace) -> int:
    from ttmem.feeds import open_feed

    options.telemetry |= options.tt_smi and options.file is None
    options.json |= options.tt_smi
    _check(options)
    once = options.watch is None
    feed = open_feed(
        options.socket,
        options.shm,
        file=options.file,
        at=options.at,
        discovery=_discovery(options.umd, once),
    )
    if options.telemetry:
        from ttmem.feeds.telemetry import telemetry_feed

        feed = telemetry_feed(feed, options.sysfs, umd=options.umd, settled=once)
    try:
        if options.watch is None:
            print(_shown(options, _look(options, feed)))
        else:
            with suppress(KeyboardInterrupt):  # the way to end a watch
                _watch(options, feed)
    finally:
        feed.close()
    return 0


def _discovery(wanted: bool, once: bool) -> Discovery | None:
    if not wanted:
        return None
    from ttmem.hw.umd import discovery

    return discovery(wanted=True, once=once)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _check(options: argparse.Namespace) -> None:
    from ttmem.snapshots import DETAILS

    if options.tt_smi and (options.by or options.kernels or options.detail):
        raise BadInput("--tt-smi cannot be combined with --by, --kernels or --detail")
    if options.detail and not options.json:
        raise BadInput("--detail adds to the JSON document; give --json too")
    if options.delta and (options.watch is None or options.json or options.by):
        raise BadInput(
            "--delta adds changes to the table of --watch; --json and --by do not have them"
        )
    if options.kernels and options.json:
        raise BadInput("--kernels is for the table; with --json use --detail programs")
    if options.sysfs and not options.telemetry:
        raise BadInput("--sysfs is for telemetry; give --telemetry too")
    if options.by and options.telemetry:
        raise BadInput("--by and --telemetry cannot be combined")
    if options.by and (options.detail or options.kernels):
        raise BadInput("--by cannot be combined with --detail or --kernels")
    for name in options.detail:
        if name not in DETAILS:
            raise BadInput(f"there is no detail {name!r}; known are {', '.join(DETAILS)}")


def _look(options: argparse.Namespace, feed: Feed) -> Snapshot:
    detail = ("buffers",) if options.by else ("programs",) if options.kernels else options.detail
    return select(feed.read(detail), options.device, options.pid)


def _shown(
    options: argparse.Namespace,
    snapshot: Snapshot,
    past: Sequence[Snapshot] = (),
    height: int | None = None,
) -> str:
    """`past`: the snapshots of the last few seconds, oldest first."""
    if options.by:
        return _grouped(options, snapshot)
    if options.json:
        document = to_json(snapshot)
        if options.tt_smi:
            from ttmem.exporters.tt_smi import tt_smi

            document = tt_smi(snapshot)
        return as_json(document, sys.stdout.isatty() and options.watch is None)
    from ttmem.views.ps import render  # 15 ms that JSON does not need

    text = render(
        snapshot,
        width=width(sys.stdout),
        color=wants_color(sys.stdout, options.no_color),
        kernels=options.kernels,
        earlier=past[0] if past else None,
        previous=past[-1] if past and options.delta else None,
        height=height,
        chosen=bool(options.device or options.pid),
    )
    return spelled(text, sys.stdout)


def _grouped(options: argparse.Namespace, snapshot: Snapshot) -> str:
    """--by: live bytes grouped by what allocated them."""
    from ttmem.views.groups import group_document, live_groups, render_groups
    from ttmem.views.selection import without_idle

    grouped = live_groups(snapshot, options.by)
    if options.json:
        document = group_document(snapshot, grouped) | {"remarks": to_json(snapshot)["remarks"]}
        return as_json(document, sys.stdout.isatty() and options.watch is None)
    columns, color = width(sys.stdout), wants_color(sys.stdout, options.no_color)
    chosen = bool(options.device or options.pid)
    text = render_groups(
        snapshot if chosen else without_idle(snapshot)[0],
        grouped,
        width=columns,
        color=color,
        chosen=chosen,
    )
    return spelled(text, sys.stdout)


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
                snapshot = _look(options, feed)
            except TtmemError as problem:
                said = _complain(screen, problem, said)
            else:
                said = ""
                height = None if screen is None else screen.height
                _show(screen, _shown(options, snapshot, past, height), options.json)
                _remember(past, snapshot)
            time.sleep(max(0.0, options.watch - (time.monotonic() - began)))


def _leave(number: int, _: object) -> None:
    """Leaves through the `with`, which restores the cursor."""
    sys.exit(128 + number)


def _remember(past: deque[Snapshot], snapshot: Snapshot) -> None:
    past.append(snapshot.without_details())
    while len(past) > 1 and snapshot.time_ns - past[1].time_ns >= TREND_NS:
        past.popleft()


def _show(screen: Screen | None, text: str, as_json: bool) -> None:
    if screen is not None:
        screen.draw(text)
    else:
        print(text if as_json else f"{text}\n", flush=True)


def _complain(screen: Screen | None, problem: TtmemError, said: str) -> str:
    """Says what is missing and goes on, since it may appear later. Errors that cannot change end the watch."""
    if isinstance(problem, (BadInput, Refused)) and not isinstance(problem, NotThere):
        raise problem
    text = clean(f"ttmem: {problem}")
    if screen is not None:
        screen.draw("\n".join([*wrap(text, width(sys.stdout)), "", "trying again; Ctrl-C ends"]))
    elif text != said:
        print(f"{text} (trying again)", file=sys.stderr, flush=True)
    return text
