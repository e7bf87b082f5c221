"""The monitor on a terminal: keys and clicks go in, lines come out."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Iterable

from ttmem.views.ink import Line
from ttmem.views.monitor.monitor import Monitor
from ttmem.views.monitor.terminal import Click, Event, Terminal
from ttmem.views.monitor.theme import Depth, Theme
from ttmem.views.monitor.watch import Follower, Question, Watch

FIRST_ANSWER = 0.4  # seconds that the first screen waits for the feed
HEARTBEAT = 1.0  # seconds; how often ages are redrawn while the feed is silent


class MonitorApp:
    """Thin: everything that can be tested without a terminal is in `Monitor`."""

    def __init__(
        self, monitor: Monitor, watch: Watch, follower: Follower, terminal: Terminal, depth: Depth
    ) -> None:
        self._monitor = monitor
        self._watch = watch
        self._follower = follower
        self._terminal = terminal
        self._themes = {dark: Theme(depth, dark) for dark in (True, False)}
        self._asked: tuple[Question, float, str | None] | None = None
        self._drawn_at = 0.0

    @property
    def over(self) -> bool:
        """The user has quit, or the terminal is gone."""
        return self._monitor.done or self._terminal.gone

    def start(self) -> None:
        """Draws the first screen, after waiting a moment for the feed."""
        self._follower.wait(FIRST_ANSWER)
        self._follower.notify = self._terminal.wake
        self._watch.take(self._follower.readings())
        self._draw()

    def turn(self) -> None:
        """Waits for something to happen, and shows the result."""
        left = self._drawn_at + HEARTBEAT - time.monotonic()
        for number, event in enumerate(self._terminal.events(left)):
            if number and not self._monitor.typing:
                self._lines()  # a key acts on the screen that the key before it led to
            self._handle(event)
        if not self.over:
            self._watch.take(self._follower.readings())
            self._monitor.tick()
            self._draw()

    def _handle(self, event: Event) -> None:
        if isinstance(event, Click):
            self._monitor.click(*event)
        elif event == "ctrl+z":
            self._terminal.suspend()
        else:
            self._monitor.press(event)

    def _draw(self) -> None:
        self._hurry()
        self._terminal.show(self._lines(), self._themes[self._monitor.dark])
        self._drawn_at = time.monotonic()

    def _lines(self) -> list[Line]:
        return self._monitor.screen(*self._terminal.size)

    def _hurry(self) -> None:
        """A new question is asked at once."""
        timeline = self._monitor.timeline
        at = timeline.at if timeline and not timeline.playing else None
        question = self._monitor.question(), self._monitor.interval, at
        if question != self._asked:
            self._asked = question
            self._follower.hurry()


def run_session(monitor: Monitor, watch: Watch, follower: Follower, depth: Depth) -> int:
    """Runs until the user quits; returns the exit code. Errors are printed at the end."""
    follower.start()
    try:
        with Terminal() as terminal:
            app = MonitorApp(monitor, watch, follower, terminal, depth)
            app.start()
            _calm_collector()
            while not app.over:
                app.turn()
    finally:
        follower.stop()
        _print_errors(monitor.faults)
    return 0


def _print_errors(faults: Iterable[str]) -> None:
    try:
        for fault in faults:
            print(f"ttmem top: {fault}", file=sys.stderr)
    except OSError:
        pass  # the terminal is gone


def _calm_collector() -> None:
    """Modules stay, and a screen is 10,000 objects that are freed without a collector.

    With the default thresholds it runs 14 times per screen: an eighth of the CPU time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)
