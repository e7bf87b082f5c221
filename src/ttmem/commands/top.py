"""Watch the memory of all devices live.

Digits switch pages: overview, device with history, cores, kernels and programs, buffers, events.
`h` lists all keys and explains the numbers; `q` quits. The monitor asks the server (`ttmem serve`) if
one runs, and otherwise reads this host's shared memory. If nothing is running yet, it waits. Space
pauses, `{` goes back in time, and End returns to the present. The last hour is kept, in up to 256 MiB.

`ttmem top FILE` shows a recording, with a time bar. It opens at the end; if all processes had exited by then, just
before the last one did; and if nothing was allocated there either, at the peak of DRAM, or else of L1. --at selects
another time.

--prometheus URL shows all hosts that a Prometheus scrapes, worst first; Enter opens one. --host USER@BOX shows
another machine, by running ttmem there over SSH; no port is opened (docs/fleet.md).

--once prints one page as text; `ttmem ps --json` has the same numbers for programs.

exit codes: 0 done, 1 failed, 2 wrong arguments or no terminal, 3 nothing to read (with --once),
4 the server, Prometheus or the other host refused
"""

from __future__ import annotations

import argparse
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, cast

from ttmem.commands.fleet import add_fleet_options, check_fleet, remote_feed, watch_fleet
from ttmem.commands.options import (
    add_choice_options,
    add_color_option,
    add_source_options,
    add_telemetry_options,
    at_last_use,
    check_terminal,
    flag,
    named_feed,
    print_screen,
    seconds,
    with_telemetry,
)
from ttmem.errors import BadInput

if TYPE_CHECKING:  # loaded when the monitor runs, not for every `ttmem --help`
    from ttmem.feeds import Feed, HostFeed, LocalFeed, PastFeed, ServerFeed
    from ttmem.views.monitor.live_data import LiveData
    from ttmem.views.monitor.monitor import Monitor
    from ttmem.views.monitor.timeline import Timeline

INTERVAL_S = 1.0


def prepare(parser: argparse.ArgumentParser) -> None:
    add_source_options(parser)
    add_telemetry_options(parser)
    parser.add_argument(
        "--interval",
        metavar="SECONDS",
        type=partial(seconds, least=0.1, most=3600.0),
        help="time between refreshes (default 1, at least 0.1; with --prometheus 5)",
    )
    add_fleet_options(parser)
    add_choice_options(parser)
    parser.add_argument(
        "--page", metavar="NAME", help="the page to start with: its name or digit (default 1)"
    )
    flag(parser, "--once", "print the page as text and exit")
    add_color_option(parser)
    flag(parser, "--ascii", "no block or Braille characters, for old terminals")


def run(options: argparse.Namespace) -> int:
    if options.prometheus is not None:
        check_fleet(options, "page")
        return watch_fleet(options)
    if options.host is not None:
        return _watch_remote(options)
    source = named_feed(options, once=options.once)
    if options.file is not None:
        from ttmem.feeds import RecordingFeed

        # If a recording has samples, showing them costs nothing.
        options.telemetry |= isinstance(source, RecordingFeed) and source.has_telemetry
    feed = with_telemetry(source, options, once=options.once)
    if options.once:
        return _print_once(feed, options)
    return watch_live(feed if options.file else keeping_past(feed, source), options)


def _watch_remote(options: argparse.Namespace) -> int:
    feed = remote_feed(options)
    if options.once:
        return _print_once(feed, options)
    check_terminal()
    feed.read()  # ssh may ask for a password while the terminal is still a plain one
    return watch_live(feed, options)


def keeping_past(feed: Feed, source: Feed) -> PastFeed:
    """`feed` with its recent past; it shows `source`, which is live: a recording has a past of its own."""
    from ttmem.feeds import PastFeed

    return PastFeed(feed, cast("HostFeed | ServerFeed | LocalFeed", source))


def watch_live(feed: Feed, options: argparse.Namespace) -> int:
    """Runs the monitor on this terminal until the user quits."""
    from ttmem.views.monitor.app import run_session
    from ttmem.views.monitor.live_data import Choice, LiveData, Poller
    from ttmem.views.monitor.theme import depth_of

    check_terminal()
    watch = LiveData(Choice(tuple(options.device), tuple(options.pid)))
    monitor = _monitor(options, feed, watch)
    monitor.timeline = _timeline(feed, options)
    monitor.notice = at_last_use(feed, options)
    poller = Poller(
        feed.answer,
        monitor.question,
        lambda: monitor.interval,
        lambda: f"the {feed.name}",
        feed.close,
    )
    return run_session(monitor, poller, depth_of(options.no_color))


def _timeline(feed: Feed, options: argparse.Namespace) -> Timeline | None:
    from ttmem.feeds import PastFeed
    from ttmem.views.monitor.timeline import LiveTimeline, Timeline

    if isinstance(feed, PastFeed):
        return LiveTimeline(feed)
    if options.file is None:
        return None
    from ttmem.feeds import RecordingFeed

    return Timeline.of(feed) if isinstance(feed, RecordingFeed) else None


def _print_once(feed: Feed, options: argparse.Namespace) -> int:
    from ttmem.views.monitor.live_data import Choice, LiveData, Reading

    watch = LiveData(Choice(tuple(options.device), tuple(options.pid)))
    monitor = _monitor(options, feed, watch, paper=True)
    monitor.notice = at_last_use(feed, options)
    try:
        for _ in range(2):  # the second brings history, and the details of the first device
            question = monitor.question()
            snapshot = feed.answer(question)
            watch.take([Reading(question, time.monotonic(), snapshot)])
    finally:
        feed.close()
    print_screen(options, monitor.screen)
    return 0


def _monitor(
    options: argparse.Namespace, feed: Feed, watch: LiveData, paper: bool = False
) -> Monitor:
    from ttmem.views.monitor.monitor import Monitor
    from ttmem.views.monitor.pages import PAGES
    from ttmem.views.terminal import lacks_signs

    return Monitor(
        lambda: feed.name,
        watch,
        PAGES,
        interval=options.interval or INTERVAL_S,
        page=_page("1" if options.page is None else options.page, [page.name for page in PAGES]),
        ascii_only=options.ascii or lacks_signs(sys.stdout),
        paper=paper,
    )


def _page(text: str, names: list[str]) -> int:
    if text.isdecimal() and 0 < int(text) <= len(names):
        return int(text) - 1
    found = [at for at, name in enumerate(names) if text and name.lower().startswith(text.lower())]
    if not found:
        known = ", ".join(names)
        raise BadInput(f"there is no page {text!r}; choose one of {known}, or its digit")
    return found[0]
