"""One run of the monitor on a terminal: first picture, then Textual, then a clean terminal."""

from __future__ import annotations

import gc
import os

from ttmem.errors import TtmemError
from ttmem.views.monitor.alternate_screen import AlternateScreen, window_size
from ttmem.views.monitor.follower import Follower
from ttmem.views.monitor.monitor import Monitor
from ttmem.views.monitor.theme import Depth, Theme
from ttmem.views.monitor.watch import Watch

FIRST_ANSWER = 0.4  # seconds that the first picture waits for the feed
_COLOURS = {
    Depth.NONE: "standard",
    Depth.FEW: "standard",
    Depth.MANY: "256",
    Depth.TRUE: "truecolor",
}


class NoTextual(TtmemError):
    """The extra `tui` is not installed."""

    def __init__(self) -> None:
        super().__init__(
            "the live monitor needs Textual: pip install 'ttmem[tui]'; "
            "`ttmem ps --watch` and `ttmem top --once` work without it"
        )


def run_session(monitor: Monitor, watch: Watch, follower: Follower, depth: Depth) -> int:
    """Until the user quits; the exit code."""
    _settings(depth)
    follower.start()
    try:
        with AlternateScreen() as screen:
            follower.wait(FIRST_ANSWER)
            watch.take(follower.readings())
            width, height = window_size()
            screen.paint(monitor.picture(width, height), width, Theme(depth, monitor.dark))
            from ttmem.views.monitor.app import MonitorApp

            _calm_collector()
            app = MonitorApp(monitor, watch, follower, depth, screen)
            return app.run() or 0
    finally:
        follower.stop()


def _calm_collector() -> None:
    """What is imported now stays, and a picture is 10,000 objects that die without a collector.

    With Python's own thresholds it runs 14 times per picture; that is an eighth of the CPU time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)


def _settings(depth: Depth) -> None:
    """Textual reads these when it is imported."""
    wanted = {
        "TEXTUAL_COLOR_SYSTEM": _COLOURS[depth],
        "TEXTUAL_ANIMATIONS": "none",
        "TEXTUAL_DISABLE_KITTY_KEY": "1",  # one mode less to give back
        "ESCDELAY": "25",  # milliseconds; Textual's 100 would make Esc feel slow
    }
    os.environ.update(wanted)
