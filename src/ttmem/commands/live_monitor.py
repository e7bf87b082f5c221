"""The monitor as the command line starts it: live on this terminal, or once as text."""

from __future__ import annotations

import argparse
import os
import sys
import time

from ttmem.errors import BadInput
from ttmem.feeds import Feed
from ttmem.views.ink import paint
from ttmem.views.monitor.app import run_session
from ttmem.views.monitor.monitor import Monitor
from ttmem.views.monitor.pages import PAGES
from ttmem.views.monitor.theme import depth_of
from ttmem.views.monitor.watch import Choice, Follower, Reading, Watch
from ttmem.views.terminal import lacks_signs, terminal_size, wants_color

SIZE_OF_A_PIPE = (120, 40)


def watch_live(feed: Feed, options: argparse.Namespace) -> int:
    """The monitor on this terminal until the user quits."""
    check_terminal()
    watch = Watch(Choice(tuple(options.device), tuple(options.pid)))
    monitor = _monitor(options, feed, watch)
    follower = Follower(feed, monitor.question, lambda: monitor.interval)
    return run_session(monitor, watch, follower, depth_of(options.no_color))


def print_once(feed: Feed, options: argparse.Namespace) -> int:
    """The view as text."""
    watch = Watch(Choice(tuple(options.device), tuple(options.pid)))
    monitor = _monitor(options, feed, watch, paper=True)
    try:
        for _ in range(2):  # with the second come the past, and the details of the first device
            question = monitor.question()
            picture = feed.read(question.detail, device=question.device, limit=question.limit)
            watch.take([Reading(question, time.monotonic(), picture)])
    finally:
        feed.close()
    width, height = terminal_size(SIZE_OF_A_PIPE)
    lines = monitor.picture(width, height)
    print(paint(lines, width, wants_color(sys.stdout, options.no_color)).rstrip("\n"))
    return 0


def _monitor(options: argparse.Namespace, feed: Feed, watch: Watch, paper: bool = False) -> Monitor:
    return Monitor(
        lambda: feed.name,
        watch,
        PAGES,
        interval=options.interval,
        page=_page(options.page),
        ascii_only=options.ascii or lacks_signs(sys.stdout),
        paper=paper,
    )


def check_terminal() -> None:
    """BadInput, with what to use instead, where the live monitor cannot run."""
    instead = "use `ttmem top --once` for one picture as text, or `ttmem ps --watch`"
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise BadInput(f"the live monitor needs a terminal; {instead}")
    if os.environ.get("TERM", "dumb") in ("", "dumb", "unknown"):
        raise BadInput(f"this terminal (TERM) cannot place text; {instead}")


def _page(text: str) -> int:
    names = [page.name.lower() for page in PAGES]
    if text.isdecimal() and 0 < int(text) <= len(names):
        return int(text) - 1
    found = [at for at, name in enumerate(names) if text and name.startswith(text.lower())]
    if not found:
        known = ", ".join(page.name for page in PAGES)
        raise BadInput(f"there is no view {text!r}; known are {known}, and their digits")
    return found[0]
