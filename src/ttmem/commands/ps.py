"""Show who uses the memory of each device, as a table or as JSON.

Takes a snapshot of all devices and processes, from the server (`ttmem serve`) if one runs, else from
the counters that stock ttnn publishes in shared memory. Sizes in the table are binary (KiB, MiB, GiB);
JSON has bytes. Kernel code is listed separately and is not part of any total. docs/numbers.md explains
each number. Without --at, a recording (FILE) opens where `ttmem top FILE` does: at its end or, if nothing is
allocated then, just before the last process ended or at the peak.

--telemetry adds temperature, power and clocks from the driver's files on this host, including cards
that no process uses (docs/telemetry.md). It needs neither root nor a server. With FILE, it shows what
was recorded at that time.

--prometheus URL lists all hosts that a Prometheus scrapes, worst first, and the fullest devices; --host NAME shows
one of them. --host USER@BOX alone runs ttmem there over SSH (docs/fleet.md).

With --watch on a terminal, the output is cut to the window, and the last line says what was left out.

exit codes: 0 done, 1 failed, 2 wrong arguments, 3 neither server nor shared memory, 4 the server
refused
"""

from __future__ import annotations

import argparse
import sys
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING

from ttmem.commands.fleet import add_fleet_options, check_fleet, fleet_text, remote_feed
from ttmem.commands.options import (
    add_snapshot_options,
    add_telemetry_options,
    at_last_use,
    drawn,
    flag,
    named_feed,
    repeat,
    seconds,
    with_telemetry,
)
from ttmem.errors import BadInput, Refused, TtmemError
from ttmem.fast_dataclasses import replace
from ttmem.snapshots import Anomaly, Snapshot, to_json
from ttmem.text import clean, wrap
from ttmem.views.selection import BY, NotThere, select
from ttmem.views.terminal import Screen, as_json, width

if TYPE_CHECKING:
    from ttmem.feeds import Feed

TREND_NS = 10_000_000_000  # over a second or less, 'growing' and 'flat' would alternate


def prepare(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_snapshot_options(parser)
    add(
        "--detail",
        metavar="LIST",
        type=_names,
        default=(),
        help="with --json: add any of programs, buffers, cores, events, history (comma separated)",
    )
    add(
        "--watch",
        metavar="SECONDS",
        nargs="?",
        type=partial(seconds, least=0.01, most=86_400.0),
        const=1.0,
        help="repeat every SECONDS (default 1) until Ctrl-C; with --json, one document per line",
    )
    flag(parser, "--delta", "with --watch: also show what changed since the previous refresh")
    flag(parser, "--kernels", "add a table of kernels by type, and the largest kernels")
    add_telemetry_options(parser)
    add_fleet_options(parser)
    flag(
        parser,
        "--tt-smi",
        "print the JSON of `tt-smi -s`, with memory added to each device and process",
    )
    add(
        "--by",
        choices=tuple(BY),
        help="group live bytes by call site, op, phase (these need the probe) or process",
    )


def run(options: argparse.Namespace) -> int:
    if options.prometheus is not None:
        return _print_fleet(options)
    options.telemetry |= options.tt_smi and options.file is None and options.host is None
    options.json |= options.tt_smi
    _check(options)
    once = options.watch is None
    remote = options.host is not None
    feed: Feed = remote_feed(options) if remote else named_feed(options, once=once)
    opened = at_last_use(feed, options) if once else ""
    feed = with_telemetry(feed, options, once=once)
    try:
        if options.watch is None:
            print(_shown(options, _remarked(_look(options, feed), opened)))
        else:
            with suppress(KeyboardInterrupt):  # how a watch ends
                _watch(options, feed)
    finally:
        feed.close()
    return 0


def _print_fleet(options: argparse.Namespace) -> int:
    check_fleet(options, "detail", "by", "kernels", "delta", "tt_smi")
    if options.watch is None:
        print(fleet_text(options))
    else:
        with suppress(KeyboardInterrupt):
            _repeat(options, partial(fleet_text, options))
    return 0


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _check(options: argparse.Namespace) -> None:
    from ttmem.snapshots import DETAILS

    if options.tt_smi and (options.by or options.kernels or options.detail):
        raise BadInput("--tt-smi cannot be combined with --by, --kernels or --detail")
    if options.detail and not options.json:
        raise BadInput("--detail needs --json")
    if options.delta and (options.watch is None or options.json or options.by):
        raise BadInput("--delta needs --watch, and cannot be combined with --json or --by")
    if options.kernels and options.json:
        raise BadInput("--kernels adds a table; with --json use --detail programs")
    if options.sysfs and not options.telemetry:
        raise BadInput("--sysfs needs --telemetry")
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


def _remarked(snapshot: Snapshot, opened: str) -> Snapshot:
    """Says where a recording was opened, if that is not its end."""
    if not opened:
        return snapshot
    remark = Anomaly("instant", f"{opened} (--at end shows that)")
    return replace(snapshot, remarks=(*snapshot.remarks, remark))


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

    draw = partial(
        render,
        snapshot,
        kernels=options.kernels,
        earlier=past[0] if past else None,
        previous=past[-1] if past and options.delta else None,
        height=height,
        chosen=bool(options.device or options.pid),
    )
    return drawn(options, draw)


def _grouped(options: argparse.Namespace, snapshot: Snapshot) -> str:
    """--by: live bytes grouped by what allocated them."""
    from ttmem.views.groups import group_document, live_groups, render_groups
    from ttmem.views.selection import without_idle

    grouped = live_groups(snapshot, options.by)
    if options.json:
        document = group_document(snapshot, grouped) | {"remarks": to_json(snapshot)["remarks"]}
        return as_json(document, sys.stdout.isatty() and options.watch is None)
    chosen = bool(options.device or options.pid)
    shown = snapshot if chosen else without_idle(snapshot)[0]
    return drawn(options, partial(render_groups, shown, grouped, chosen=chosen))


def _watch(options: argparse.Namespace, feed: Feed) -> None:
    past: deque[Snapshot] = deque()

    def look(height: int | None) -> str:
        snapshot = _look(options, feed)
        text = _shown(options, snapshot, past, height)
        _remember(past, snapshot)
        return text

    _repeat(options, look)


def _repeat(options: argparse.Namespace, look: Callable[[int | None], str]) -> None:
    """Refreshes until Ctrl-C; `look` gets the height of the terminal."""
    in_place = sys.stdout.isatty() and not options.json
    if in_place:
        import signal

        signal.signal(signal.SIGTERM, _leave)
    with Screen(sys.stdout) if in_place else nullcontext() as screen:

        def show() -> None:
            text = look(None if screen is None else screen.height)
            if screen is not None:
                screen.draw(text)
            else:
                print(text if options.json else f"{text}\n", flush=True)

        repeat(options.watch, show, partial(_complain, screen))


def _leave(number: int, _: object) -> None:
    """Raises, so that the `with` block restores the cursor."""
    sys.exit(128 + number)


def _remember(past: deque[Snapshot], snapshot: Snapshot) -> None:
    past.append(snapshot.without_details())
    while len(past) > 1 and snapshot.time_ns - past[1].time_ns >= TREND_NS:
        past.popleft()


def _complain(screen: Screen | None, problem: TtmemError, said: str) -> str:
    """Prints a problem that may go away, such as a missing server; others end the watch."""
    if isinstance(problem, (BadInput, Refused)) and not isinstance(problem, NotThere):
        raise problem
    text = clean(f"ttmem: {problem}")
    if screen is not None:
        screen.draw("\n".join([*wrap(text, width(sys.stdout)), "", "trying again; Ctrl-C ends"]))
    elif text != said:
        print(f"{text} (trying again)", file=sys.stderr, flush=True)
    return text
