"""Watch the memory of all devices live.

Digits switch pages: overview, device with history, cores, kernels and programs, buffers, events.
`h` lists all keys and explains how each number is made; `q` quits. The monitor asks the server
(`ttmem serve`) if one runs, and otherwise reads this host's shared memory. If nothing is running
yet, it waits. The space bar and `{` go back in time, End returns to the present: the last hour is kept,
at most 256 MiB of it.

`ttmem top FILE` shows a recording, with a time bar. It opens at the end, or, if all processes had ended by
then, just before the last one did; --at chooses another instant.

--once prints one page as text, for a file or a script; `ttmem ps --json` has the same numbers as data.

exit codes: 0 done, 1 failed, 2 wrong arguments or no terminal, 3 nothing to read (with --once),
4 the server refused
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from functools import partial
from typing import TYPE_CHECKING

from ttmem.commands.options import (
    add_choice_options,
    add_color_option,
    add_source_options,
    add_telemetry_options,
    seconds,
)
from ttmem.errors import BadInput

if TYPE_CHECKING:  # loaded when the monitor runs, not for every `ttmem --help`
    from ttmem.feeds import Feed
    from ttmem.views.monitor.monitor import Monitor
    from ttmem.views.monitor.timeline import Timeline
    from ttmem.views.monitor.watch import Watch

SIZE_OF_A_PIPE = (120, 40)


def prepare(parser: argparse.ArgumentParser) -> None:
    add_source_options(parser)
    add_telemetry_options(parser)
    parser.add_argument(
        "--interval",
        metavar="SECONDS",
        type=partial(seconds, least=0.1, most=3600.0),
        default=1.0,
        help="seconds between two refreshes (default 1, at least 0.1)",
    )
    add_choice_options(parser)
    parser.add_argument(
        "--page", metavar="NAME", default="1", help="the page to start with: its name or digit"
    )
    parser.add_argument("--once", action="store_true", help="print the page as text and exit")
    add_color_option(parser)
    parser.add_argument(
        "--ascii", action="store_true", help="no block or Braille characters, for old terminals"
    )


def run(options: argparse.Namespace) -> int:
    from ttmem.feeds import open_feed
    from ttmem.hw.umd import discovery

    found = discovery(wanted=options.umd, once=options.once)
    source = open_feed(
        options.socket, options.shm, file=options.file, at=options.at, discovery=found
    )
    feed = source
    if options.telemetry:
        from ttmem.feeds.telemetry import telemetry_feed

        feed = telemetry_feed(feed, options.sysfs, umd=options.umd, settled=options.once)
    if not options.once:
        feed = keeping_past(feed, source)
    return _print_once(feed, options) if options.once else watch_live(feed, options)


def keeping_past(feed: Feed, source: Feed) -> Feed:
    """The feed with its recent past; of a recording there is no other."""
    from ttmem.feeds import HostFeed, ServerFeed
    from ttmem.feeds.past import PastFeed

    if isinstance(source, (HostFeed, ServerFeed)):
        return PastFeed(feed, source)
    from ttmem.feeds import LocalFeed

    return PastFeed(feed, source) if isinstance(source, LocalFeed) else feed


def watch_live(feed: Feed, options: argparse.Namespace) -> int:
    """Runs the monitor on this terminal until the user quits."""
    from ttmem.views.monitor.app import run_session
    from ttmem.views.monitor.theme import depth_of
    from ttmem.views.monitor.watch import Choice, Follower, Watch

    check_terminal()
    watch = Watch(Choice(tuple(options.device), tuple(options.pid)))
    monitor = _monitor(options, feed, watch)
    monitor.timeline = _timeline(feed, options)
    monitor.notice = _opened(feed, options)
    follower = Follower(feed, monitor.question, lambda: monitor.interval)
    return run_session(monitor, watch, follower, depth_of(options.no_color))


def _timeline(feed: Feed, options: argparse.Namespace) -> Timeline | None:
    from ttmem.feeds.past import PastFeed
    from ttmem.views.monitor.timeline import LiveTimeline, Timeline

    if isinstance(feed, PastFeed):
        return LiveTimeline(feed)
    if options.file is None:
        return None
    from ttmem.feeds.recording_feed import RecordingFeed

    return Timeline.of(feed) if isinstance(feed, RecordingFeed) else None


def _print_once(feed: Feed, options: argparse.Namespace) -> int:
    from ttmem.views.ink import paint
    from ttmem.views.monitor.watch import Choice, Reading, Watch
    from ttmem.views.terminal import terminal_size, wants_color

    watch = Watch(Choice(tuple(options.device), tuple(options.pid)))
    monitor = _monitor(options, feed, watch, paper=True)
    monitor.notice = _opened(feed, options)
    try:
        for _ in range(2):  # the second brings history, and the details of the first device
            question = monitor.question()
            snapshot = feed.read(question.detail, device=question.device, limit=question.limit)
            watch.take([Reading(question, time.monotonic(), snapshot)])
    finally:
        feed.close()
    width, height = terminal_size(SIZE_OF_A_PIPE)
    lines = monitor.screen(width, height)
    print(paint(lines, width, wants_color(sys.stdout, options.no_color)).rstrip("\n"))
    return 0


def _opened(feed: Feed, options: argparse.Namespace) -> str:
    """Goes to an instant of a recording with something to see; says which, unless it is the end."""
    if options.file is None or options.at is not None:
        return ""
    from ttmem.feeds.recording_feed import RecordingFeed

    return feed.go_to_last_use() if isinstance(feed, RecordingFeed) else ""


def _monitor(options: argparse.Namespace, feed: Feed, watch: Watch, paper: bool = False) -> Monitor:
    from ttmem.views.monitor.monitor import Monitor
    from ttmem.views.monitor.pages import PAGES
    from ttmem.views.terminal import lacks_signs

    return Monitor(
        lambda: feed.name,
        watch,
        PAGES,
        interval=options.interval,
        page=_page(options.page, [page.name for page in PAGES]),
        ascii_only=options.ascii or lacks_signs(sys.stdout),
        paper=paper,
    )


def check_terminal() -> None:
    """BadInput, saying what to use instead, where the live monitor cannot run."""
    instead = "use `ttmem top --once` to print a page as text, or `ttmem ps --watch`"
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise BadInput(f"the live monitor needs a terminal; {instead}")
    if os.environ.get("TERM", "dumb") in ("", "dumb", "unknown"):
        raise BadInput(f"this terminal (TERM) cannot move the cursor; {instead}")


def _page(text: str, names: list[str]) -> int:
    if text.isdecimal() and 0 < int(text) <= len(names):
        return int(text) - 1
    found = [at for at, name in enumerate(names) if text and name.lower().startswith(text.lower())]
    if not found:
        known = ", ".join(names)
        raise BadInput(f"there is no page {text!r}; choose one of {known}, or its digit")
    return found[0]
